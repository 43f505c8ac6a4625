// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	"github.com/tutti-project/tutti/test/controlplane"
)

// storedJobs are some that training-operator's definition lets through and
// Tutti's does not; what they end in, or nothing if they run.
var storedJobs = []struct{ name, spec, want string }{
	{"unknown-type", `{tfReplicaSpecs: {Launcher: {replicas: 1, template: {spec: {containers: [{name: tensorflow, image: i}]}}}}}`, `"Launcher"`},
	{"no-trainer", `{tfReplicaSpecs: {Worker: {replicas: 1, template: {spec: {containers: [{name: tensorlow, image: i}]}}}}}`, "no container is named tensorflow"},
	{"no-image", `{tfReplicaSpecs: {Worker: {replicas: 1, template: {spec: {containers: [{name: tensorflow}]}}}}}`, "has no image"},
	{"no-containers", `{tfReplicaSpecs: {Worker: {replicas: 1, template: {spec: {restartPolicy: Never}}}}}`, "tensorflow"},
	{"no-template", `{tfReplicaSpecs: {Worker: {replicas: 1}}}`, "tensorflow"},
	{"null-role", `{tfReplicaSpecs: {Worker: null}}`, "no replicas"},
	{"negative", `{tfReplicaSpecs: {Worker: {replicas: -1, template: {spec: {containers: [{name: tensorflow, image: i}]}}}}}`, "negative"},
	{"too-many", `{tfReplicaSpecs: {Worker: {replicas: 2000000000, template: {spec: {containers: [{name: tensorflow, image: i}]}}}}}`, "at most 10000"},
	{"too-many-of-old", `{replicaSpecs: [{tfReplicaType: WORKER, replicas: 2000000000, template: {spec: {containers: [{name: tensorflow, image: i}]}}}]}`, "at most 10000"},
	{"twice", `{tfReplicaSpecs: {Worker: {template: {spec: {containers: [{name: tensorflow, image: i}]}}}, worker: {template: {spec: {containers: [{name: tensorflow, image: i}]}}}}}`, "given twice"},
	{"restart-policy", `{tfReplicaSpecs: {Worker: {restartPolicy: Sometimes, template: {spec: {containers: [{name: tensorflow, image: i}]}}}}}`, `"Sometimes"`},
	{"no-roles", `{tfReplicaSpecs: {}}`, "no replicas"},
	{strings.Repeat("long", 15), `{tfReplicaSpecs: {Worker: {replicas: 2, template: {spec: {containers: [{name: tensorflow, image: i}]}}}}}`, "cannot be the name of a service"},
	{"odd-words", `{successPolicy: Most, runPolicy: {cleanPodPolicy: Some, schedulingPolicy: {minAvailable: 0}}, tfReplicaSpecs: {Worker: {template: {spec: {containers: [{name: tensorflow, image: i}]}}}}}`, ""},
	{"two-chiefs", `{tfReplicaSpecs: {Chief: {replicas: 2, template: {spec: {containers: [{name: tensorflow, image: i}]}}}}}`, ""},
}

// TestJobsThatAnotherDefinitionLetThrough: they are stored when Tutti's
// definition and controller are installed. Each runs, or ends and says why, for
// its status can be written although its specification could not.
func TestJobsThatAnotherDefinitionLetThrough(t *testing.T) {
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Dir: t.TempDir()})
	must(t, err)
	t.Cleanup(plane.Stop)
	must(t, plane.CreateNodes(t.Context(), controlplane.Small))
	s := newScene(t, plane)
	client, err := dynamic.NewForConfig(plane.Config)
	must(t, err)

	ours := s.loosen(client)
	for _, j := range storedJobs {
		spec := map[string]any{}
		must(t, yaml.Unmarshal([]byte(j.spec), &spec))
		s.eventually(t.Context(), "the loose definition takes "+j.name, func(ctx context.Context) error {
			_, err := client.Resource(kubeflowv1.SchemeGroupVersion.WithResource(kubeflowv1.TFJobPlural)).Namespace(s.namespace).Create(ctx, &unstructured.Unstructured{
				Object: map[string]any{"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": map[string]any{"name": j.name}, "spec": spec},
			}, metav1.CreateOptions{})
			return err
		})
	}
	s.redefine(client, ours)
	s.eventually(t.Context(), "Tutti's definition is back", func(ctx context.Context) error {
		err := s.createJob(ctx, job("probe", role{"Launcher", 1, 0}))
		if err == nil {
			_ = s.deleteJob(ctx, "probe")
			return fmt.Errorf("an impossible job is taken")
		}
		return nil
	})
	_, err = plane.StartScheduler()
	must(t, err)
	_, err = plane.StartController()
	must(t, err)
	for _, j := range storedJobs {
		check := s.failed(j.name, kubeflowv1.TFJobFailedValidationReason, j.want)
		if j.want == "" {
			check = s.state(j.name, kubeflowv1.JobRunning)
		}
		if err := plane.Eventually(t.Context(), patience/3, check); err != nil {
			t.Errorf("%s: %v", j.name, err)
		}
	}
}

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// loosen replaces the schema of TFJobs by one that takes everything, and returns
// what was there.
func (s *scene) loosen(client dynamic.Interface) (versions []any) {
	crd, err := client.Resource(definitions).Get(s.t.Context(), kubeflowv1.TFJobPlural+"."+kubeflowv1.GroupName, metav1.GetOptions{})
	must(s.t, err)
	versions, _, err = unstructured.NestedSlice(crd.Object, "spec", "versions")
	must(s.t, err)
	loose, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	must(s.t, err)
	for _, version := range loose {
		version.(map[string]any)["schema"] = map[string]any{
			"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
		}
	}
	s.redefine(client, loose)
	return versions
}

func (s *scene) redefine(client dynamic.Interface, versions []any) {
	crd, err := client.Resource(definitions).Get(s.t.Context(), kubeflowv1.TFJobPlural+"."+kubeflowv1.GroupName, metav1.GetOptions{})
	must(s.t, err)
	must(s.t, unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"))
	_, err = client.Resource(definitions).Update(s.t.Context(), crd, metav1.UpdateOptions{})
	must(s.t, err)
}
