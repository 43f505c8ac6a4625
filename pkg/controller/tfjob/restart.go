// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// firstRetryableExitCode: exit codes below it are the program's own verdict, those above are signals.
const firstRetryableExitCode = 128

// isRestartable tells whether a pod that has failed is replaced. Under OnFailure and Always the kubelet restarts containers by
// itself, so a pod of theirs that has failed was evicted, preempted or lost with its node. Exit codes of a pod that was told to end
// say how it took the news, and nothing about the program. A pod that its kubelet did not take is replaced under every policy: what
// has never run is not run again.
func isRestartable(policy kubeflowv1.RestartPolicy, pod *corev1.Pod) bool {
	if isRejected(pod) {
		return true
	}
	switch policy {
	case kubeflowv1.RestartPolicyOnFailure, kubeflowv1.RestartPolicyAlways:
		return true
	case kubeflowv1.RestartPolicyExitCode:
		code, known := exitCode(pod)
		return !known || code >= firstRetryableExitCode || isDisrupted(pod)
	}
	return false
}

// disruptions are the reasons of failed pods that say: not the program's fault.
var disruptions = []string{"Evicted", "Preempted", "Preempting", "NodeLost", "NodeShutdown", "Shutdown", "Terminated"}

// isDisrupted tells whether a failed pod was taken from the job: deleted by somebody, evicted, preempted, rejected by its kubelet or
// lost with its node. One that has succeeded counts as failed under Always, where nothing ends by itself.
func isDisrupted(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded {
		return true
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return slices.Contains(disruptions, pod.Status.Reason) || isRejected(pod)
}

// podDeadlineExceeded is the reason of a failed pod that has outlived the limit in its own template.
const podDeadlineExceeded = "DeadlineExceeded"

// isRejected tells whether a failed pod was rejected by the kubelet that it was given to. That is recognised by the containers that
// were never started, for the reasons are many (OutOfcpu, OutOfnvidia.com/gpu, UnexpectedAdmissionError, TopologyAffinityError,
// NodeAffinity, ...).
func isRejected(pod *corev1.Pod) bool {
	reason := pod.Status.Reason
	return reason != "" && reason != podDeadlineExceeded && !slices.Contains(disruptions, reason) && !hasStarted(pod)
}

// hasStarted tells whether any container of a pod has ever run.
func hasStarted(pod *corev1.Pod) bool {
	return slices.ContainsFunc(slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses), func(s corev1.ContainerStatus) bool {
		return s.State.Running != nil || s.State.Terminated != nil || s.LastTerminationState.Terminated != nil || s.RestartCount > 0
	})
}

// podRestartPolicy is what the kubelet is told; under ExitCode it must not restart anything by itself.
func podRestartPolicy(policy kubeflowv1.RestartPolicy) corev1.RestartPolicy {
	if policy == kubeflowv1.RestartPolicyExitCode {
		return corev1.RestartPolicyNever
	}
	return corev1.RestartPolicy(policy)
}

// exitCode is that of the container that trains, known once it has ended.
func exitCode(pod *corev1.Pod) (code int32, known bool) {
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name == kubeflowv1.TFJobDefaultContainerName && s.State.Terminated != nil {
			return s.State.Terminated.ExitCode, true
		}
	}
	return 0, false
}

func isActive(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil
}
