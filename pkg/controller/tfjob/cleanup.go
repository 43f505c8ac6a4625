// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	corev1 "k8s.io/api/core/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// cleanUp removes of a finished job what its policy says. Once that is done it decides nothing, so that thousands of finished
// jobs cost no calls.
func cleanUp(p *plan, v *view) {
	p.deleteGroups = staying(sorted(v.groups))
	policy := *v.job.Spec.RunPolicy.CleanPodPolicy
	if policy == kubeflowv1.CleanPodPolicyNone {
		return
	}
	isKept := func(pod *corev1.Pod) bool { return policy == kubeflowv1.CleanPodPolicyRunning && hasEnded(pod) }
	active := false
	for _, pod := range sorted(v.pods) {
		active = active || isActive(pod)
		if pod.DeletionTimestamp == nil && !isKept(pod) {
			p.deletePods = append(p.deletePods, pod)
		}
	}
	for _, service := range staying(sorted(v.services)) {
		if pod := v.pods[service.Name]; pod == nil || !isKept(pod) {
			p.deleteServices = append(p.deleteServices, service)
		}
	}
	if !active {
		for _, rs := range p.status.ReplicaStatuses {
			rs.Active = 0
		}
	}
}

func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
