// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// trim takes out what no placement depends on: it is most of the size, and
// what may be secret (commands, environments, applied manifests).
func trim(o *unstructured.Unstructured) {
	o.SetManagedFields(nil)
	annotations := o.GetAnnotations()
	delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
	if len(annotations) == 0 {
		annotations = nil
	}
	o.SetAnnotations(annotations)
	switch o.GetKind() {
	case "Pod":
		trimPodSpec(o.Object["spec"])
		for _, field := range []string{"containerStatuses", "initContainerStatuses"} {
			statuses, _, _ := unstructured.NestedSlice(o.Object, "status", field)
			for _, status := range statuses {
				keep(status, "name", "resources", "allocatedResources", "state") // what a resize has changed, and why it does not run
				for _, state := range []string{"waiting", "terminated"} {
					if s, ok := at(status, "state", state); ok {
						keep(s, "reason", "exitCode")
					}
				}
			}
			if statuses != nil {
				_ = unstructured.SetNestedSlice(o.Object, statuses, "status", field)
			}
		}
		unstructured.RemoveNestedField(o.Object, "status", "ephemeralContainerStatuses")
	case "ReplicaSet", "StatefulSet", "ReplicationController":
		unstructured.RemoveNestedField(o.Object, "spec", "template", "spec")
	case "TFJob":
		roles, _, _ := unstructured.NestedMap(o.Object, "spec", "tfReplicaSpecs")
		for _, role := range roles {
			if spec, ok := at(role, "template", "spec"); ok {
				trimPodSpec(spec)
			}
		}
		if roles != nil {
			_ = unstructured.SetNestedMap(o.Object, roles, "spec", "tfReplicaSpecs")
		}
	}
}

// trimPodSpec keeps of a container what the filters and the controller read.
func trimPodSpec(spec any) {
	pod, ok := spec.(map[string]any)
	if !ok {
		return
	}
	for _, field := range []string{"containers", "initContainers"} {
		containers, _ := pod[field].([]any)
		for _, c := range containers {
			keep(c, "name", "image", "resources", "ports", "restartPolicy")
		}
	}
	delete(pod, "ephemeralContainers")
}

func at(value any, path ...string) (any, bool) {
	for _, key := range path {
		m, ok := value.(map[string]any)
		if !ok {
			return nil, false
		}
		if value, ok = m[key]; !ok {
			return nil, false
		}
	}
	return value, true
}

// keep takes all other fields out.
func keep(value any, fields ...string) {
	object, ok := value.(map[string]any)
	if !ok {
		return
	}
	for field := range object {
		if !slices.Contains(fields, field) {
			delete(object, field)
		}
	}
}
