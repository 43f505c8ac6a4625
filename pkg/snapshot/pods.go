// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// KeyOf is an object's namespace and name.
func KeyOf(o *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// NodeOf is the node that a pod is bound to, empty for none.
func NodeOf(pod *unstructured.Unstructured) string {
	node, _, _ := unstructured.NestedString(pod.Object, "spec", "nodeName")
	return node
}

// PhaseOf is a pod's phase.
func PhaseOf(pod *unstructured.Unstructured) v1.PodPhase {
	phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase")
	return v1.PodPhase(phase)
}

// HasEnded tells whether a pod has succeeded or failed: it holds no room.
func HasEnded(pod *unstructured.Unstructured) bool {
	phase := PhaseOf(pod)
	return phase == v1.PodSucceeded || phase == v1.PodFailed
}
