// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/kubernetes/pkg/features"
)

// disagree is where members differ in what the engine demands to be the same in
// all of them: those that have a node, and those that are being deleted, too
// (validatePodGroup in pkg/scheduler/schedule_one_podgroup.go). A cycle of such
// a gang fails before the planner hears of it. Of several members the first by
// name is told, so that the same lack has the same words. O(members).
func disagree(group *schedulingv1beta1.PodGroup, scheduler string, members []*v1.Pod) lack {
	odd := func(agrees func(*v1.Pod) bool) *v1.Pod {
		var first *v1.Pod
		for _, pod := range members {
			if !agrees(pod) && (first == nil || byName(pod, first) < 0) {
				first = pod
			}
		}
		return first
	}
	if pod := odd(func(pod *v1.Pod) bool { return pod.Spec.SchedulerName == scheduler }); pod != nil {
		return lack{lacksScheduler, fmt.Sprintf("the gang's pods differ in schedulerName (%s and, of %s, %s): name one scheduler in all of them, and delete those that name another, so that they are made anew",
			scheduler, wherever(pod), pod.Spec.SchedulerName)}
	}
	const oneClass = "give all of them and their PodGroup one priority class, and delete pods that have another, also those that run, so that they are made anew"
	priority := priorityOf(group)
	if pod := odd(func(pod *v1.Pod) bool { return corev1helpers.PodPriority(pod) == priority }); pod != nil {
		return lack{lacksPriority, fmt.Sprintf("the gang's pods differ in priority (%d and, of %s, %d): %s", priority, wherever(pod), corev1helpers.PodPriority(pod), oneClass)}
	}
	policy := policyOf(slices.MinFunc(members, byName))
	if utilfeature.DefaultFeatureGate.Enabled(features.PodGroupPreemptionPolicy) {
		policy = v1.PreemptLowerPriority
		if group.Spec.PreemptionPolicy != nil {
			policy = v1.PreemptionPolicy(*group.Spec.PreemptionPolicy)
		}
	}
	if pod := odd(func(pod *v1.Pod) bool { return policyOf(pod) == policy }); pod != nil {
		return lack{lacksPriority, fmt.Sprintf("the gang's pods differ in preemptionPolicy (%s and, of %s, %s): %s", policy, wherever(pod), policyOf(pod), oneClass)}
	}
	return lack{}
}

func byName(a, b *v1.Pod) int { return cmp.Compare(a.Name, b.Name) }

// wherever names a pod, its node if it has one, and that it goes if it does.
func wherever(pod *v1.Pod) string {
	text := "pod " + pod.Name
	if pod.Spec.NodeName != "" {
		text += " on node " + pod.Spec.NodeName
	}
	if pod.DeletionTimestamp != nil {
		text += " that is being deleted"
	}
	return text
}

// policyOf is the pod's preemption policy, or what the API takes for none.
func policyOf(pod *v1.Pod) v1.PreemptionPolicy {
	if pod.Spec.PreemptionPolicy == nil {
		return v1.PreemptLowerPriority
	}
	return *pod.Spec.PreemptionPolicy
}
