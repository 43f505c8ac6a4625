// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"encoding/json"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedulingv1alpha1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
)

// ownAnnotations are those that a user takes back by removing them from the job. Others may be someone else's on the PodGroup.
const ownAnnotations = "tutti.dev/"

// newPodGroup makes the gang of a job: all of its pods, unless the user says that fewer will do. It cannot be more than the pods that
// are there or may still come.
func newPodGroup(v *view, counts []roleCount) *schedulingv1alpha1.PodGroup {
	group := &schedulingv1alpha1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{
			Name:            v.job.Name,
			Namespace:       v.job.Namespace,
			Labels:          jobLabels(v.job),
			Annotations:     groupAnnotations(v),
			OwnerReferences: ownerReferences(v.job),
		},
		Spec: schedulingv1alpha1.PodGroupSpec{MinMember: int32(totalReplicas(v.roles))},
	}
	if policy := v.job.Spec.RunPolicy.SchedulingPolicy; policy != nil {
		if policy.MinAvailable != nil {
			group.Spec.MinMember = max(1, *policy.MinAvailable)
		}
		if policy.MinResources != nil {
			group.Spec.MinResources = *policy.MinResources
		}
		group.Spec.ScheduleTimeoutSeconds = policy.ScheduleTimeoutSeconds
	}
	group.Spec.MinMember = max(1, min(group.Spec.MinMember, possibleMembers(counts)))
	return group
}

// possibleMembers leaves out replicas that will never have a pod again. A succeeded pod that is there still counts: schedulers take it for a
// member that has its place.
func possibleMembers(counts []roleCount) int32 {
	n := 0
	for i := range counts {
		n += counts[i].role.replicas - counts[i].spent - len(counts[i].lost)
	}
	return int32(n)
}

// groupAnnotations are the job's. What kubectl notes for itself describes the job and would be a lie on another object.
func groupAnnotations(v *view) map[string]string {
	annotations := maps.Clone(v.job.Annotations)
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	return annotations
}

// podGroupPatch is the JSON patch that turns a PodGroup into what it should be, or nil. It touches neither the status nor what
// others wrote, and fails if the PodGroup has changed since it was read.
func podGroupPatch(is, want *schedulingv1alpha1.PodGroup) []byte {
	annotations := maps.Clone(is.Annotations)
	maps.DeleteFunc(annotations, func(key, _ string) bool {
		_, wanted := want.Annotations[key]
		return strings.HasPrefix(key, ownAnnotations) && !wanted
	})
	annotations = merged(annotations, want.Annotations)

	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	operations := []operation{{"test", "/metadata/resourceVersion", is.ResourceVersion}}
	if !equality.Semantic.DeepEqual(is.Annotations, annotations) {
		operations = append(operations, operation{"add", "/metadata/annotations", annotations})
	}
	if !equality.Semantic.DeepEqual(is.Spec, want.Spec) {
		operations = append(operations, operation{"replace", "/spec", want.Spec})
	}
	if len(operations) == 1 {
		return nil
	}
	patch, err := json.Marshal(operations)
	if err != nil {
		return nil // strings, numbers and quantities always marshal
	}
	return patch
}
