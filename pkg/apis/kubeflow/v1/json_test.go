// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package v1_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// TestJSONIsThatOfTrainingOperator: what upstream's Go types write, ours read whole and write
// again as it was.
func TestJSONIsThatOfTrainingOperator(t *testing.T) {
	for _, file := range manifests(t, "testdata/compat/*.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var job kubeflowv1.TFJob
			if err := yaml.UnmarshalStrict(data, &job); err != nil {
				t.Fatalf("decoding: %v", err)
			}
			written, err := yaml.Marshal(&job)
			if err != nil {
				t.Fatalf("encoding: %v", err)
			}
			if diff := cmp.Diff(plain(t, data), plain(t, written)); diff != "" {
				t.Errorf("round trip (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDeepCopySharesNothing: a copy, changed all over by decoding another manifest into it, leaves
// the original as it was.
func TestDeepCopySharesNothing(t *testing.T) {
	data, err := os.ReadFile("testdata/compat/every-field.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var job, want kubeflowv1.TFJob
	for _, into := range []*kubeflowv1.TFJob{&job, &want} {
		if err := yaml.UnmarshalStrict(data, into); err != nil {
			t.Fatal(err)
		}
	}
	changed := job.DeepCopy()
	*changed.Spec.RunPolicy.BackoffLimit = 99
	(*changed.Spec.RunPolicy.SchedulingPolicy.MinResources)["cpu"] = (*changed.Spec.RunPolicy.SchedulingPolicy.MinResources)["nvidia.com/gpu"]
	*changed.Spec.TFReplicaSpecs["PS"].Replicas = 99
	changed.Spec.TFReplicaSpecs["Worker"].Template.Spec.Containers[0].Image = "other"
	changed.Status.Conditions[0].Reason = "Other"
	changed.Status.ReplicaStatuses["PS"].Active = 99
	if diff := cmp.Diff(want, job); diff != "" {
		t.Errorf("the original changed (-want +got):\n%s", diff)
	}
}

func manifests(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatalf("no file matches %s", pattern)
	}
	return files
}

func plain(t *testing.T, data []byte) map[string]any {
	t.Helper()
	object := map[string]any{}
	if err := yaml.Unmarshal(data, &object); err != nil {
		t.Fatal(err)
	}
	return object
}
