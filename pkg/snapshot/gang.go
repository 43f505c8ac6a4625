// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
)

// NativePodGroup is the API server's own kind of PodGroup. That of the CRD has
// the same name: what is asked of groups here holds for both.
var NativePodGroup = kind("scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup", true)

// IsNative tells the two kinds of PodGroup apart.
func IsNative(group *unstructured.Unstructured) bool {
	return group.GroupVersionKind().Group == NativePodGroup.Resource.Group
}

// GangOf is the group that a pod names, in its spec or else by its label, as the
// scheduler reads it; its name is empty for none.
func GangOf(pod *unstructured.Unstructured) types.NamespacedName {
	name := NativeGangOf(pod)
	if name == "" {
		name = pod.GetLabels()[v1alpha1.PodGroupLabel]
	}
	if name == "" {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: pod.GetNamespace(), Name: name}
}

// NativeGangOf is the name of the group that a pod names in its spec, empty for
// none. API servers without native groups keep no such field.
func NativeGangOf(pod *unstructured.Unstructured) string {
	name, _, _ := unstructured.NestedString(pod.Object, "spec", "schedulingGroup", "podGroupName")
	return name
}

// GroupsOf are the PodGroups among objects by name. Of two with one name the
// native one counts, as for the scheduler.
func GroupsOf(objects []*unstructured.Unstructured) map[types.NamespacedName]*unstructured.Unstructured {
	groups := map[types.NamespacedName]*unstructured.Unstructured{}
	for _, o := range objects {
		if o.GetKind() != NativePodGroup.Kind {
			continue
		}
		if key := KeyOf(o); groups[key] == nil || IsNative(o) {
			groups[key] = o
		}
	}
	return groups
}

// GroupOf is the PodGroup of a gang; nil for none.
func (s *Snapshot) GroupOf(gang types.NamespacedName) *unstructured.Unstructured {
	return GroupsOf(s.Objects)[gang]
}

// minimums are the fields for how many members start together.
var (
	minMember = []string{"spec", "minMember"}
	minCount  = []string{"spec", "schedulingPolicy", "gang", "minCount"}
)

// MinimumOf is how many members start together, and the name of the field that
// says so. It is 0 for a native group that is no gang.
func MinimumOf(group *unstructured.Unstructured) (minimum int64, field string) {
	path := minMember
	if IsNative(group) {
		path = minCount
	}
	minimum, _, _ = unstructured.NestedInt64(group.Object, path...)
	return minimum, path[len(path)-1]
}

// ConstraintOf is the node label of the domain that a native group must be in by
// its spec; empty for none.
func ConstraintOf(group *unstructured.Unstructured) string {
	constraints, _, _ := unstructured.NestedSlice(group.Object, "spec", "schedulingConstraints", "topology")
	if !IsNative(group) || len(constraints) == 0 {
		return ""
	}
	first, _ := constraints[0].(map[string]any) // the API allows one
	key, _ := first["key"].(string)
	return key
}
