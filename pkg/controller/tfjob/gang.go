// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/tutti-project/tutti/pkg/apis/tutti"
)

// gang is what a PodGroup of either kind says of a job's pods.
type gang struct {
	metav1.ObjectMeta
	// minMember is how many pods have to be placed for any to start; those that have succeeded, and whose pods are there, are among them.
	minMember int32
	// minResources is what they need together.
	minResources           corev1.ResourceList
	scheduleTimeoutSeconds *int32
	priorityClass          string
}

// gangOf makes the gang of a job: all of its pods, unless the user says that fewer will do. It cannot be more than the pods that are
// there or may still come.
func gangOf(v *view, counts []roleCount) gang {
	g := gang{
		ObjectMeta: metav1.ObjectMeta{
			Name:            v.job.Name,
			Namespace:       v.job.Namespace,
			Labels:          jobLabels(v.job),
			Annotations:     groupAnnotations(v),
			OwnerReferences: ownerReferences(v.job),
		},
		minMember: int32(totalReplicas(v.roles)),
	}
	policy := v.job.Spec.RunPolicy.SchedulingPolicy
	if policy != nil {
		if policy.MinAvailable != nil {
			g.minMember = max(1, *policy.MinAvailable)
		}
		g.scheduleTimeoutSeconds = policy.ScheduleTimeoutSeconds
	}
	// More than there are is a way to hold a job back, and stays.
	if int(g.minMember) <= totalReplicas(v.roles) {
		g.minMember = max(1, min(g.minMember, possibleMembers(counts)))
	}
	unended := g.minMember
	for i := range counts {
		unended -= counts[i].succeeded - int32(counts[i].spent)
		if counts[i].role.replicas > 0 {
			g.priorityClass = priorityClass(v.job, counts[i].role) // the same for all: see validateGang
		}
	}
	if minimums := roleMinimums(v, counts, unended); minimums != "" {
		g.Annotations = merged(g.Annotations, map[string]string{tutti.RoleMinimumsAnnotation: minimums})
	}
	if policy != nil && policy.MinResources != nil {
		g.minResources = *policy.MinResources
	} else {
		g.minResources = minResources(v.roles, g.minMember)
	}
	return g
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

// minResources is what the first members need together, in the order in which the job needs its roles.
func minResources(roles []role, members int32) corev1.ResourceList {
	roles = slices.Clone(roles)
	slices.SortFunc(roles, func(a, b role) int { return cmp.Compare(slices.Index(needed, a.kind), slices.Index(needed, b.kind)) })
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
