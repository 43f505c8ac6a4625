// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package examples

import (
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

func TestManifestsRunThePrograms(t *testing.T) {
	files, err := filepath.Glob("../../examples/*/tfjob.yaml")
	if err != nil || len(files) != 3 {
		t.Fatalf("manifests %v, error %v; want 3", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		job := &kubeflowv1.TFJob{}
		if err := yaml.UnmarshalStrict(text, job); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		for role, replicas := range job.Spec.TFReplicaSpecs {
			container := replicas.Template.Spec.Containers[0]
			if _, err := os.Stat(filepath.Join("../..", container.Args[0])); err != nil {
				t.Errorf("%s: %s runs a program that is not there: %v", file, role, err)
			}
		}
	}
}
