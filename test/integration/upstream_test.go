// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tutti-project/tutti/test/controlplane"
)

// TestUpstreamsPodGroupCRDWorks: a cluster that has scheduler-plugins' own CRD,
// which knows no conditions, has the same gangs; the verdict is in events only.
func TestUpstreamsPodGroupCRDWorks(t *testing.T) {
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Dir: t.TempDir()})
	must(t, err)
	t.Cleanup(plane.Stop)
	must(t, plane.CreateNodes(t.Context(), controlplane.Small))
	crds, err := controlplane.ObjectsFromFile(upstreamCRD(t))
	must(t, err)
	must(t, plane.Apply(t.Context(), "", crds...))
	_, err = plane.StartScheduler()
	must(t, err)
	_, err = plane.StartController()
	must(t, err)

	s := newScene(t, plane)
	s.run([]step{
		{
			name: "one gang that fits and one that does not",
			do: func(ctx context.Context) error {
				if err := s.createJob(ctx, job("train", ps(1), workers(2, 8))); err != nil {
					return err
				}
				return s.createJob(ctx, job("big", workers(70, 8)))
			},
			check: all(s.bound("train", 3), s.event("train", "GangPlaced")),
		},
		{name: "the refusal is an event", check: s.event("big", "FailedScheduling", "worker", "of 70")},
		{name: "and no condition", check: func(ctx context.Context) error {
			return s.noConditions(ctx, "big")
		}},
	})
	s.expectWhole(t, "train", 3)
}

func (s *scene) noConditions(ctx context.Context, gang string) error {
	group, err := s.plane.Dynamic.Resource(controlplane.PodGroups).Namespace(s.namespace).Get(ctx, gang, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if conditions, found, _ := unstructured.NestedSlice(group.Object, "status", "conditions"); found {
		return fmt.Errorf("PodGroup %s has conditions, so this is not upstream's CRD: %v", gang, conditions)
	}
	return nil
}

// upstreamCRD is the file in the module that the product imports.
func upstreamCRD(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/scheduler-plugins").Output()
	must(t, err)
	return filepath.Join(strings.TrimSpace(string(out)), "manifests", "coscheduling", "crd.yaml")
}
