// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	"github.com/tutti-project/tutti/pkg/clusterview"
)

// draftOf shows a manifest that is not created.
func draftOf(o *unstructured.Unstructured, resource string) Gang {
	gang := Gang{
		Reference: Reference{Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName()},
		State:     stateDraft, Wishes: wishesOf(o),
	}
	gang.Pods, gang.GPUs = asksOf(o, resource)
	return gang
}

// asksOf is how many pods a job makes and how many devices they ask for; none for
// what is no job or cannot be read.
func asksOf(o *unstructured.Unstructured, resource string) (pods int, devices int64) {
	var job kubeflowv1.TFJob
	if o.GetKind() != kubeflowv1.TFJobKind || runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &job) != nil {
		return 0, 0
	}
	for _, role := range job.Spec.TFReplicaSpecs {
		if role == nil {
			continue
		}
		replicas := 1
		if role.Replicas != nil {
			replicas = int(*role.Replicas)
		}
		pods += replicas
		devices += int64(replicas) * clusterview.RequestOf(&v1.Pod{Spec: defaulted(role.Template.Spec)})[resource]
	}
	return pods, devices
}

// defaulted is the spec with the requests that an API server would add: a limit
// without a request is one.
func defaulted(spec v1.PodSpec) v1.PodSpec {
	spec = *spec.DeepCopy()
	for i := range spec.Containers {
		resources := &spec.Containers[i].Resources
		for name, limit := range resources.Limits {
			if _, ok := resources.Requests[name]; !ok {
				if resources.Requests == nil {
					resources.Requests = v1.ResourceList{}
				}
				resources.Requests[name] = limit
			}
		}
	}
	return spec
}
