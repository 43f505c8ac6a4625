// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-project/tutti/test/controlplane"
)

// TestShapesOfUpstreamsExamples: the API server takes them as they stand, with
// strict validation, and the controller makes all their pods and services. Whether
// they are placed is another's matter: their volumes exist in no test.
func TestShapesOfUpstreamsExamples(t *testing.T) {
	for file, size := range map[string]int{
		"simple.yaml": 2, "dist-mnist.yaml": 4, "dist-mnist-1.8.yaml": 6, "mnist-with-summaries.yaml": 1,
		"multi-worker.yaml": 2, "estimator-1.8.yaml": 3,
	} {
		t.Run(file, func(t *testing.T) {
			s := newScene(t, shared)
			objects, err := controlplane.ObjectsFromFile(filepath.Join("testdata/upstream", file))
			must(t, err)
			must(t, s.plane.Store(t.Context(), s.namespace, objects[0]))
			name := objects[0].GetName()
			s.run([]step{{
				name:  "its pods, services and PodGroup exist",
				check: all(s.exists(name, size), s.servicePerPod(name, size), s.wantsMembers(name, int32(size))),
			}})
		})
	}
}

// exists is true when the gang has just so many pods.
func (s *scene) exists(gang string, size int) func(context.Context) error {
	return func(ctx context.Context) error {
		pods, err := s.plane.Pods(ctx, s.namespace, gang)
		if err == nil && len(pods) != size {
			err = fmt.Errorf("gang %s has %d pods, want %d", gang, len(pods), size)
		}
		return err
	}
}

func (s *scene) wantsMembers(gang string, want int32) func(context.Context) error {
	return func(ctx context.Context) error {
		group, err := s.podGroups.SchedulingV1alpha1().PodGroups(s.namespace).Get(ctx, gang, metav1.GetOptions{})
		if err == nil && group.Spec.MinMember != want {
			err = fmt.Errorf("gang %s wants %d members, want %d", gang, group.Spec.MinMember, want)
		}
		return err
	}
}
