// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	"github.com/tutti-project/tutti/pkg/clusterspec"
)

// event is what is told about a job to people; the object is always the TFJob.
type event struct {
	kind    string // corev1.EventTypeNormal or EventTypeWarning
	reason  string
	message string
}

// The catalogue: every event that the controller sends, in the order of a job's life.

func templateRestartPolicyIgnored(r *role) event {
	return event{corev1.EventTypeWarning, "SetPodTemplateRestartPolicy",
		fmt.Sprintf("The restart policy in the pod template of %s is replaced by the replica's, %s", r.kind, r.spec.RestartPolicy)}
}

func templateSchedulerKept(r *role) event {
	return event{corev1.EventTypeWarning, "SetPodTemplateSchedulerName",
		fmt.Sprintf("The pod template of %s names scheduler %s; it is kept, and that scheduler must place the gang", r.kind, r.spec.Template.Spec.SchedulerName)}
}

func environmentTooLong(longest clusterspec.Var) event {
	return event{corev1.EventTypeWarning, "EnvironmentTooLong", fmt.Sprintf("%s takes %d KiB, and most nodes start no program with a variable above %d KiB; "+
		"use fewer replicas, shorter names of job and namespace, or enableDynamicWorker", longest.Name, longest.Size()>>10, clusterspec.MaxSize>>10)}
}

func jobInvalid(message string) event {
	return event{corev1.EventTypeWarning, kubeflowv1.TFJobFailedValidationReason, message}
}

func editNotCarriedOut(problems string) event {
	return event{corev1.EventTypeWarning, kubeflowv1.TFJobFailedValidationReason,
		"The job cannot be run as it is now, and goes on with the pods it has until that is changed: " + problems}
}

func created(kind, name string) event {
	return event{corev1.EventTypeNormal, "SuccessfulCreate" + kind, fmt.Sprintf("Created %s: %s", strings.ToLower(kind), name)}
}

func createFailed(kind, name string, err error) event {
	return event{corev1.EventTypeWarning, "FailedCreate" + kind, fmt.Sprintf("Error creating %s %s: %v", strings.ToLower(kind), name, err)}
}

func deleted(kind, name string) event {
	return event{corev1.EventTypeNormal, "SuccessfulDelete" + kind, fmt.Sprintf("Deleted %s: %s", strings.ToLower(kind), name)}
}

func deleteFailed(kind, name string, err error) event {
	return event{corev1.EventTypeWarning, "FailedDelete" + kind, fmt.Sprintf("Error deleting %s %s: %v", strings.ToLower(kind), name, err)}
}

func exitedWithCode(pod *corev1.Pod, code int32) event {
	return event{corev1.EventTypeNormal, "ExitedWithCode", fmt.Sprintf("Pod %s exited with code %d", pod.Name, code)}
}

func podRestarting(pod *corev1.Pod) event {
	return event{corev1.EventTypeWarning, kubeflowv1.TFJobRestartingReason, fmt.Sprintf("Pod %s failed and is replaced", pod.Name)}
}

func podStays(pod *corev1.Pod, nodeIsLost bool) event {
	if !nodeIsLost {
		return event{corev1.EventTypeWarning, "PodNotDeleted", fmt.Sprintf("Pod %s should be gone, and node %s has not ended it: see the log of its kubelet",
			pod.Name, pod.Spec.NodeName)}
	}
	return event{corev1.EventTypeWarning, "PodOnLostNode", fmt.Sprintf("Pod %s should be gone, but node %s does not answer; "+
		"when nothing runs there any more, delete the node or force the pod's deletion", pod.Name, pod.Spec.NodeName)}
}

func podHeld(pod *corev1.Pod) event {
	return event{corev1.EventTypeWarning, "PodNotDeleted", fmt.Sprintf("Pod %s should be gone, but its finalizers hold it; whoever set them has to take them off: %s",
		pod.Name, strings.Join(pod.Finalizers, ", "))}
}

func podInTrouble(pod *corev1.Pod, reason, message string) event {
	return event{corev1.EventTypeWarning, reason, fmt.Sprintf("Pod %s, %s", pod.Name, message)}
}

func jobSucceeded(job *kubeflowv1.TFJob) event {
	return event{corev1.EventTypeNormal, kubeflowv1.TFJobSucceededReason, succeededCondition(job).Message}
}

// jobFailed is a warning where a program's exit code decided, and normal otherwise, as clients of upstream's know it.
func jobFailed(job *kubeflowv1.TFJob, c *roleCount) event {
	kind := corev1.EventTypeNormal
	if c.role.spec.RestartPolicy == kubeflowv1.RestartPolicyExitCode {
		kind = corev1.EventTypeWarning
	}
	return event{kind, kubeflowv1.TFJobFailedReason, failedMessage(job, c)}
}

func limitReached(message string) event {
	return event{corev1.EventTypeNormal, kubeflowv1.TFJobFailedReason, message}
}

func jobExpired(job *kubeflowv1.TFJob) event {
	return event{corev1.EventTypeNormal, "SuccessfulDeleteJob", fmt.Sprintf("Deleted job: %s", job.Name)}
}

func jobSuspended(job *kubeflowv1.TFJob) event {
	return event{corev1.EventTypeNormal, kubeflowv1.TFJobSuspendedReason, suspendedCondition(job).Message}
}

func jobResumed(job *kubeflowv1.TFJob) event {
	return event{corev1.EventTypeNormal, kubeflowv1.TFJobResumedReason, resumedCondition(job).Message}
}
