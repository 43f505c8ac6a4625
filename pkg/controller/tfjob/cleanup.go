// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// finish does what is left to do for a job that has ended. Once that is done it decides nothing, so that thousands of finished jobs
// cost no calls.
func finish(p *plan, v *view, now time.Time) {
	p.status.CompletionTime = completedAt(&p.status, now)
	p.deleteGroups = staying(sorted(v.groups))
	cleanUp(p, v)
	if at := expiry(&p.status, v.job); at != nil {
		if p.deleteJob = !now.Before(*at); !p.deleteJob {
			p.lookAgain(*at, now)
		}
	}
}

// cleanUp removes of a finished job what its policy says. A job that has reached a limit leaves nothing running: that is what the
// limit is for. Nor does one that cannot be run, some of whose pods may have been made.
func cleanUp(p *plan, v *view) {
	policy := *v.job.Spec.RunPolicy.CleanPodPolicy
	if policy == kubeflowv1.CleanPodPolicyNone {
		if !reachedLimit(&p.status, v.job) && !isImpossible(&p.status) {
			return
		}
		policy = kubeflowv1.CleanPodPolicyRunning
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

// isImpossible tells whether a job ended because it could not be run.
func isImpossible(status *kubeflowv1.JobStatus) bool {
	failed := findCondition(status, kubeflowv1.JobFailed)
	return failed != nil && failed.Reason == kubeflowv1.TFJobFailedValidationReason
}

func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
