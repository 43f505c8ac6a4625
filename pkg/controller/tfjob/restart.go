// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// firstRetryableExitCode: exit codes below it are the program's own verdict, those above are signals.
const firstRetryableExitCode = 128

// isRestartable tells whether a pod that has failed is replaced. Under OnFailure and Always the kubelet restarts containers by
// itself, so a pod of theirs that has failed was evicted, preempted or lost with its node. Exit codes of a pod that was told to end
// say how it took the news, and nothing about the program. A pod of which nothing ran is replaced under every policy: what has never run is
// not run again.
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
	return isCalledOff(pod) || pod.Status.Phase == corev1.PodSucceeded || slices.Contains(disruptions, pod.Status.Reason) || isRejected(pod)
}

// isCalledOff tells whether somebody wanted a pod to end: it was deleted, or it bears the condition of what is evicted, preempted or
// collected.
func isCalledOff(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue
	})
}

// podDeadlineExceeded is the reason of a failed pod that has outlived the limit in its own template.
const podDeadlineExceeded = "DeadlineExceeded"

// rejection begins the message of a pod that its kubelet did not take, whatever the reason is: rejectPod of pkg/kubelet/kubelet.go,
// Kubernetes 1.34 to 1.37.
const rejection = "Pod was rejected: "

// isRejected tells whether a failed pod ended before anything of it ran. Its kubelet did not take it, and the reasons for that are many
// (OutOfcpu, OutOfnvidia.com/gpu, UnexpectedAdmissionError, TopologyAffinityError, NodeAffinity, NodeShutdown, Evicted, ...); or it was
// deleted, evicted or collected while its images were pulled, or before any kubelet said a word of it. What ended for another reason and
// tells nothing of its containers may have run.
func isRejected(pod *corev1.Pod) bool {
	reason := pod.Status.Reason
	if pod.Status.Phase != corev1.PodFailed || reason == podDeadlineExceeded || hasStarted(pod) {
		return false
	}
	return strings.HasPrefix(pod.Status.Message, rejection) || len(containerStatuses(pod)) > 0 || isCalledOff(pod) ||
		reason != "" && !slices.Contains(disruptions, reason)
}

// hasStarted tells whether any container of a pod has ever run.
func hasStarted(pod *corev1.Pod) bool {
	return slices.ContainsFunc(containerStatuses(pod), func(s corev1.ContainerStatus) bool { return !neverRan(&s) })
}

// containerStatuses are those of all containers of a pod.
func containerStatuses(pod *corev1.Pod) []corev1.ContainerStatus {
	return slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
}

// statusUnknown is the reason that the kubelet gives to containers of an ending pod that it does not find: ContainerReasonStatusUnknown of
// pkg/kubelet/container/runtime.go.
const statusUnknown = "ContainerStatusUnknown"

// neverRan tells whether a container has never run. When a pod ends, the kubelet (TerminatePod of pkg/kubelet/status/status_manager.go) sets
// such a container to terminated too, with the exit code 137; one that did run has an ID, a former state, or a restart.
func neverRan(s *corev1.ContainerStatus) bool {
	if s.State.Running != nil || s.LastTerminationState.Terminated != nil || s.RestartCount > 0 {
		return false
	}
	end := s.State.Terminated
	return end == nil || end.Reason == statusUnknown && end.ContainerID == "" && s.ContainerID == ""
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
		if s.Name == kubeflowv1.TFJobDefaultContainerName && s.State.Terminated != nil && !neverRan(&s) {
			return s.State.Terminated.ExitCode, true
		}
	}
	return 0, false
}

func isActive(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil
}
