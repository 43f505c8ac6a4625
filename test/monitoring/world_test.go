// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	"github.com/tutti-project/tutti/test/controlplane"
)

var tfjobs = kubeflowv1.SchemeGroupVersion.WithResource("tfjobs")

var played sync.Once

// play shows Prometheus what the demo shows, and then what else happens to jobs.
func play(t *testing.T) {
	t.Helper()
	played.Do(func() {
		samples, err := filepath.Glob("../../manifests/samples/*.yaml")
		must(t, err)
		for _, file := range samples {
			if filepath.Base(file) != "kustomization.yaml" {
				apply(t, file)
			}
		}
		demo, more := objects(t, "../../hack/demo/jobs.yaml"), objects(t, "testdata/jobs.yaml")
		must(t, stage.Apply(t.Context(), "default", demo[0]))
		eventually(t, "the first job of the demo is placed", placed(demo[0].GetName(), 30))
		must(t, stage.Apply(t.Context(), "default", demo[1]))
		eventually(t, "the second one waits", waits(demo[1].GetName()))
		must(t, stage.Delete(t.Context(), "default", demo[0]))
		eventually(t, "then it is placed", placed(demo[1].GetName(), 40))
		must(t, stage.Apply(t.Context(), "default", more...))
		eventually(t, "a job of more priority evicts it", placed("urgent", 30))
		another := demo[1].DeepCopy()
		another.SetName("waits")
		must(t, stage.Apply(t.Context(), "default", another))
		eventually(t, "another finds no room", waits("waits"))
		eventually(t, "a job succeeds", is("succeeds", kubeflowv1.JobSucceeded))
		eventually(t, "a job fails", is("fails", kubeflowv1.JobFailed))
		eventually(t, "a job's pod is replaced", is("restarts", kubeflowv1.JobRestarting))
		must(t, stage.Delete(t.Context(), "default", find(t, more, "restarts")))
		must(t, stage.agents[0].describe(7)) // so that it writes
	})
}

func objects(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	list, err := controlplane.ObjectsFromFile(file)
	must(t, err)
	return list
}

func apply(t *testing.T, file string) {
	t.Helper()
	must(t, stage.Apply(t.Context(), "default", objects(t, file)...))
}

func find(t *testing.T, list []*unstructured.Unstructured, name string) *unstructured.Unstructured {
	t.Helper()
	i := slices.IndexFunc(list, func(o *unstructured.Unstructured) bool { return o.GetName() == name })
	if i < 0 {
		t.Fatalf("there is no %s", name)
	}
	return list[i]
}

func placed(gang string, size int) func(context.Context) error {
	return func(ctx context.Context) error { return stage.Bound(ctx, "default", gang, size) }
}

func waits(gang string) func(context.Context) error {
	return func(ctx context.Context) error {
		verdict, err := stage.Verdict(ctx, "default", gang)
		if err == nil && verdict.Status != metav1.ConditionFalse {
			err = fmt.Errorf("%s: %s", verdict.Reason, verdict.Message)
		}
		return err
	}
}

// is nil when the job has had the condition, whatever came after.
func is(job string, condition kubeflowv1.JobConditionType) func(context.Context) error {
	return func(ctx context.Context) error {
		stored, err := stage.Dynamic.Resource(tfjobs).Namespace("default").Get(ctx, job, metav1.GetOptions{})
		if err != nil {
			return err
		}
		conditions, _, err := unstructured.NestedSlice(stored.Object, "status", "conditions")
		if err == nil && !slices.ContainsFunc(conditions, func(c any) bool { return c.(map[string]any)["type"] == string(condition) }) {
			err = fmt.Errorf("%s is not %s: %v", job, condition, conditions)
		}
		return err
	}
}
