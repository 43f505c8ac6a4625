// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"cmp"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
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

// SchedulerOf is the scheduler that a pod is for.
func SchedulerOf(pod *unstructured.Unstructured) string {
	name, _, _ := unstructured.NestedString(pod.Object, "spec", "schedulerName")
	return cmp.Or(name, v1.DefaultSchedulerName)
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

// ConditionOf is the condition of this type, if the object has one.
func ConditionOf(object *unstructured.Unstructured, kind string) (metav1.Condition, bool) {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range conditions {
		fields, ok := c.(map[string]any)
		if !ok || fields["type"] != kind {
			continue
		}
		var condition metav1.Condition
		text := func(key string) string { s, _ := fields[key].(string); return s }
		condition.Type, condition.Status = kind, metav1.ConditionStatus(text("status"))
		condition.Reason, condition.Message = text("reason"), text("message")
		return condition, true
	}
	return metav1.Condition{}, false
}

// Typed are the objects of one kind in their Go type.
func Typed[T any](s *Snapshot, kind string) ([]*T, error) {
	var found []*T
	for _, o := range s.Of(kind) {
		object := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, object); err != nil {
			return nil, fmt.Errorf("%s %s: %w", strings.ToLower(kind), o.GetName(), err)
		}
		found = append(found, object)
	}
	return found, nil
}
