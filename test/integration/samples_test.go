// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	tuttiapi "github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/test/controlplane"
)

const samples = "../../manifests/samples/"

func TestLegacyManifestWorksAsItStands(t *testing.T) {
	s := newScene(t, shared)
	s.run([]step{
		{
			name:  "the manifest",
			do:    s.applySample("legacy-v1alpha1.yaml"),
			check: s.bound("example-job", 4),
		},
		// The files' names are the pods' names.
		{name: "names and TF_CONFIG", check: s.tfConfigs("example-job")},
		{name: "it runs", check: s.running("example-job", 4)},
	})
	s.expectWhole(t, "example-job", 4)
}

func TestEverySampleRuns(t *testing.T) {
	files, err := filepath.Glob(samples + "*.yaml")
	must(t, err)
	if len(files) == 0 {
		t.Fatal("no samples")
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			s := newScene(t, shared)
			objects, err := controlplane.ObjectsFromFile(file)
			must(t, err)
			must(t, s.plane.Apply(t.Context(), s.namespace, objects...))
			for _, object := range objects {
				gang := object.GetName()
				s.run([]step{{
					name: "the gang of " + gang + " is placed whole",
					check: all(
						s.condition(gang, metav1.ConditionTrue, tuttiapi.GangPlacedReason),
						s.whole(gang),
					),
				}})
			}
		})
	}
}

func (s *scene) applySample(file string) func(context.Context) error {
	return func(ctx context.Context) error {
		objects, err := controlplane.ObjectsFromFile(samples + file)
		if err != nil {
			return err
		}
		return s.plane.Apply(ctx, s.namespace, objects...)
	}
}

// whole is true when the gang has as many pods as its PodGroup wants, all bound.
func (s *scene) whole(gang string) func(context.Context) error {
	return func(ctx context.Context) error {
		group, err := s.podGroups.SchedulingV1alpha1().PodGroups(s.namespace).Get(ctx, gang, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return s.bound(gang, int(group.Spec.MinMember))(ctx)
	}
}
