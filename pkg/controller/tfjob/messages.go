// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// The conditions of a job, one constructor each. Types and reasons are what clients compare; messages are for people.

func createdCondition(job *kubeflowv1.TFJob) kubeflowv1.JobCondition {
	return condition(kubeflowv1.JobCreated, corev1.ConditionTrue, kubeflowv1.TFJobCreatedReason,
		fmt.Sprintf("TFJob %s is created.", job.Name))
}

func runningCondition(job *kubeflowv1.TFJob) kubeflowv1.JobCondition {
	return condition(kubeflowv1.JobRunning, corev1.ConditionTrue, kubeflowv1.TFJobRunningReason,
		fmt.Sprintf("TFJob %s/%s is running.", job.Namespace, job.Name))
}

func restartingCondition(job *kubeflowv1.TFJob, r *role) kubeflowv1.JobCondition {
	return condition(kubeflowv1.JobRestarting, corev1.ConditionTrue, kubeflowv1.TFJobRestartingReason,
		fmt.Sprintf("TFJob %s is restarting because a %s replica failed.", job.Name, r.kind))
}

func succeededCondition(job *kubeflowv1.TFJob) kubeflowv1.JobCondition {
	return condition(kubeflowv1.JobSucceeded, corev1.ConditionTrue, kubeflowv1.TFJobSucceededReason,
		fmt.Sprintf("TFJob %s/%s succeeded.", job.Namespace, job.Name))
}

func failedCondition(message string) kubeflowv1.JobCondition {
	return condition(kubeflowv1.JobFailed, corev1.ConditionTrue, kubeflowv1.TFJobFailedReason, message)
}

func backoffMessage(job *kubeflowv1.TFJob) string {
	return fmt.Sprintf("TFJob %s failed because it has reached its backoff limit, %d.", job.Name, *job.Spec.RunPolicy.BackoffLimit)
}

func deadlineMessage(job *kubeflowv1.TFJob) string {
	return fmt.Sprintf("TFJob %s failed because it was active longer than its deadline, %d seconds.", job.Name, *job.Spec.RunPolicy.ActiveDeadlineSeconds)
}

func failedMessage(job *kubeflowv1.TFJob, c *roleCount) string {
	message := fmt.Sprintf("TFJob %s failed because %d %s replica(s) failed", job.Name, len(c.lost), c.role.kind)
	if code, known := exitCode(c.lost[0]); known {
		return fmt.Sprintf("%s; %s exited with code %d.", message, c.lost[0].Name, code)
	}
	return message + "."
}

func suspendedCondition(job *kubeflowv1.TFJob) kubeflowv1.JobCondition {
	return condition(kubeflowv1.JobSuspended, corev1.ConditionTrue, kubeflowv1.TFJobSuspendedReason,
		fmt.Sprintf("TFJob %s is suspended.", job.Name))
}

func notRunningCondition(job *kubeflowv1.TFJob) kubeflowv1.JobCondition {
	return condition(kubeflowv1.JobRunning, corev1.ConditionFalse, kubeflowv1.TFJobSuspendedReason,
		fmt.Sprintf("TFJob %s is suspended.", job.Name))
}

func resumedCondition(job *kubeflowv1.TFJob) kubeflowv1.JobCondition {
	return condition(kubeflowv1.JobSuspended, corev1.ConditionFalse, kubeflowv1.TFJobResumedReason,
		fmt.Sprintf("TFJob %s is resumed.", job.Name))
}
