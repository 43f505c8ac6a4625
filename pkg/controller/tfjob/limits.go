// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// backoff tells whether a job has used up its restarts. Restarts of containers have happened when they are seen, failures of pods are
// about to cost a restart: a limit of n means n restarts and no more. The n-th restart of a container already ends the job, as users
// of training-operator know it.
func backoff(status *kubeflowv1.JobStatus, job *kubeflowv1.TFJob) (exceeded bool) {
	if job.Spec.RunPolicy.BackoffLimit == nil {
		return false
	}
	limit := int64(*job.Spec.RunPolicy.BackoffLimit)
	var faults, containers int64
	for t, rs := range status.ReplicaStatuses {
		if spec := job.Spec.TFReplicaSpecs[t]; spec == nil || spec.RestartPolicy == kubeflowv1.RestartPolicyNever {
			continue
		}
		for _, r := range rs.Restarts {
			faults += int64(r.Faults)
			containers += int64(r.ContainerRestarts)
		}
	}
	return faults+containers > limit || containers >= max(1, limit)
}

// deadlineOf is when an unfinished job has to have finished, or nil.
func deadlineOf(status *kubeflowv1.JobStatus, job *kubeflowv1.TFJob) *time.Time {
	limit := job.Spec.RunPolicy.ActiveDeadlineSeconds
	if limit == nil || status.StartTime == nil {
		return nil
	}
	return new(status.StartTime.Add(seconds(*limit)))
}

// reachedLimit tells whether a job ended at one of its limits, with pods that would run on.
func reachedLimit(status *kubeflowv1.JobStatus, job *kubeflowv1.TFJob) bool {
	if !isTrue(status, kubeflowv1.JobFailed) {
		return false
	}
	deadline := deadlineOf(status, job)
	return deadline != nil && status.CompletionTime != nil && !status.CompletionTime.Time.Before(*deadline) || backoff(status, job)
}

// expiry is when a finished job is to be deleted, or nil. A job that is suspended after its end is kept.
func expiry(status *kubeflowv1.JobStatus, job *kubeflowv1.TFJob) *time.Time {
	ttl := job.Spec.RunPolicy.TTLSecondsAfterFinished
	if ttl == nil || status.CompletionTime == nil || ptr.Deref(job.Spec.RunPolicy.Suspend, false) {
		return nil
	}
	return new(status.CompletionTime.Add(seconds(int64(*ttl))))
}

// seconds is a duration of at most some hundred years, which is all that fits.
func seconds(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Second)
	return time.Duration(max(-most, min(most, n))) * time.Second
}

// completedAt supplies the end of a finished job whose status lacks it, as former controllers left it.
func completedAt(status *kubeflowv1.JobStatus, now time.Time) *metav1.Time {
	if status.CompletionTime != nil {
		return status.CompletionTime
	}
	for _, t := range []kubeflowv1.JobConditionType{kubeflowv1.JobSucceeded, kubeflowv1.JobFailed} {
		if c := findCondition(status, t); c != nil && !c.LastTransitionTime.IsZero() {
			return &c.LastTransitionTime
		}
	}
	return new(wireTime(now))
}
