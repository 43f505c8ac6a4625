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
	resourcehelper "k8s.io/component-helpers/resource"
	schedulingv1alpha1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/tutti-project/tutti/pkg/apis/tutti"
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
		group.Spec.ScheduleTimeoutSeconds = policy.ScheduleTimeoutSeconds
	}
	// More than there are is a way to hold a job back, and stays.
	if int(group.Spec.MinMember) <= totalReplicas(v.roles) {
		group.Spec.MinMember = max(1, min(group.Spec.MinMember, possibleMembers(counts)))
	}
	if minimums := roleMinimums(v, counts, group.Spec.MinMember); minimums != "" {
		group.Annotations = merged(group.Annotations, map[string]string{tutti.RoleMinimumsAnnotation: minimums})
	}
	if policy := v.job.Spec.RunPolicy.SchedulingPolicy; policy != nil && policy.MinResources != nil {
		group.Spec.MinResources = *policy.MinResources
	} else {
		group.Spec.MinResources = minResources(v.roles, group.Spec.MinMember)
	}
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

// minResources is what the first members need together, roles in order. All members have one priority class, so that is an order
// by priority too; and it is the same in every reconcile.
func minResources(roles []role, members int32) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for i := range roles {
		n := min(int(members), roles[i].replicas)
		members -= int32(n)
		for name, quantity := range requests(&roles[i].spec.Template.Spec) {
			quantity.Mul(int64(n))
			total := sum[name]
			total.Add(quantity)
			if !total.IsZero() {
				sum[name] = total
			}
		}
	}
	if len(sum) == 0 {
		return nil
	}
	return sum
}

// requests are those of a pod as its node will count them. Where a template gives a limit alone, the API server makes it the request.
func requests(template *corev1.PodSpec) corev1.ResourceList {
	pod := &corev1.Pod{Spec: *template.DeepCopy()}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			r := &containers[i].Resources
			for name, quantity := range r.Limits {
				if _, given := r.Requests[name]; !given {
					if r.Requests == nil {
						r.Requests = corev1.ResourceList{}
					}
					r.Requests[name] = quantity
				}
			}
		}
	}
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
}

// groupAnnotations are the job's, and the queue for those who have queues. What kubectl notes for itself describes the job and would
// be a lie on another object.
func groupAnnotations(v *view) map[string]string {
	annotations := maps.Clone(v.job.Annotations)
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	if policy := v.job.Spec.RunPolicy.SchedulingPolicy; policy != nil && policy.Queue != "" {
		annotations = merged(annotations, map[string]string{tutti.QueueAnnotation: policy.Queue})
	}
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
	if !hasLabels(is, want.Labels) {
		operations = append(operations, operation{"add", "/metadata/labels", merged(is.Labels, want.Labels)})
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
