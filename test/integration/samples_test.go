// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"testing"

	"github.com/tutti-project/tutti/test/controlplane"
)

const samples = "../../manifests/samples/"

func TestLegacyManifestWorksAsItStands(t *testing.T) {
	s := newScene(t, shared)
	s.run([]step{
		{
			name:  "the manifest",
			do:    s.applySample("legacy.yaml"),
			check: s.bound("example-job", 4),
		},
		// The files' names are the pods' names.
		{name: "names and TF_CONFIG", check: s.tfConfigs("example-job")},
		{name: "it runs", check: s.running("example-job", 4)},
	})
	s.expectWhole(t, "example-job", 4)
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
