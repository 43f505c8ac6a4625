// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// roleCount is what the pods of one role are doing.
type roleCount struct {
	role      *role
	active    int32
	succeeded int32
	failed    int32
	// lost are failed pods that stay failed; restarting are failed pods that are replaced.
	lost       []*corev1.Pod
	restarting []*corev1.Pod
	// firstDone: the pod of index 0 has succeeded.
	firstDone bool
}

// count looks at every slot of every role. A pod that is being deleted while it runs is neither active nor failed: it is being
// replaced, and its end will be judged when it is there.
func count(v *view) []roleCount {
	counts := make([]roleCount, len(v.roles))
	for i := range v.roles {
		r := &v.roles[i]
		counts[i].role = r
		for index := range r.replicas {
			if pod := v.pods[slot{r, index}.name(v.job)]; pod != nil {
				counts[i].add(pod, index)
			}
		}
	}
	return counts
}

func (c *roleCount) add(pod *corev1.Pod, index int) {
	switch {
	case isActive(pod):
		c.active++
	case pod.Status.Phase == corev1.PodSucceeded:
		c.succeeded++
		code, known := exitCode(pod)
		c.firstDone = c.firstDone || index == 0 && known && code == 0
	case pod.Status.Phase == corev1.PodFailed:
		c.failed++
		if isRestartable(c.role.spec.RestartPolicy, pod) {
			c.restarting = append(c.restarting, pod)
		} else {
			c.lost = append(c.lost, pod)
		}
	}
}

// hasSucceeded: the role has done what the job is for.
func (c *roleCount) hasSucceeded(job *kubeflowv1.TFJob) bool {
	if !c.role.decides || c.role.replicas == 0 {
		return false
	}
	if int(c.succeeded) == c.role.replicas {
		return true
	}
	return c.role.kind == kubeflowv1.TFJobReplicaTypeWorker && c.firstDone &&
		ptr.Deref(job.Spec.SuccessPolicy, "") != kubeflowv1.SuccessPolicyAllWorkers
}

// hasFailed: the role has lost a pod that the job cannot do without.
func (c *roleCount) hasFailed(job *kubeflowv1.TFJob) bool {
	expendable := job.Spec.EnableDynamicWorker && c.role.kind == kubeflowv1.TFJobReplicaTypeWorker
	return len(c.lost) > 0 && !expendable
}

// judge moves the status of a job that runs to what its pods say. It returns the events of a final verdict.
func judge(status *kubeflowv1.JobStatus, job *kubeflowv1.TFJob, counts []roleCount, now time.Time) []event {
	status.ReplicaStatuses = replicaStatuses(counts)
	running := false
	var restarting *roleCount
	for i := range counts {
		c := &counts[i]
		running = running || c.role.decides && c.active > 0
		if c.hasSucceeded(job) {
			return succeed(status, job, now)
		}
		if c.hasFailed(job) {
			if running {
				setCondition(status, runningCondition(job), now)
			}
			return lose(status, job, c, now)
		}
		if len(c.restarting) > 0 && restarting == nil {
			restarting = c
		}
	}
	// One of the two only: they replace each other, and adding both would change the status in every reconcile.
	switch {
	case restarting != nil:
		setCondition(status, restartingCondition(job, restarting.role), now)
	case running:
		setCondition(status, runningCondition(job), now)
	}
	return nil
}

func succeed(status *kubeflowv1.JobStatus, job *kubeflowv1.TFJob, now time.Time) []event {
	setCondition(status, succeededCondition(job), now)
	status.CompletionTime = new(wireTime(now))
	// What still runs beside a success has done its part.
	for _, rs := range status.ReplicaStatuses {
		rs.Succeeded, rs.Active = rs.Succeeded+rs.Active, 0
	}
	return []event{jobSucceeded(job)}
}

func lose(status *kubeflowv1.JobStatus, job *kubeflowv1.TFJob, c *roleCount, now time.Time) []event {
	setCondition(status, failedCondition(job, c), now)
	status.CompletionTime = new(wireTime(now))
	var events []event
	for _, pod := range c.lost {
		if code, known := exitCode(pod); known {
			events = append(events, exitedWithCode(pod, code))
		}
	}
	return append(events, jobFailed(job, c))
}

func invalidate(status *kubeflowv1.JobStatus, problems []string, now time.Time) []event {
	message := "The job cannot be run: " + strings.Join(problems, "; ") + "."
	setCondition(status, condition(kubeflowv1.JobFailed, corev1.ConditionTrue, kubeflowv1.TFJobFailedValidationReason, message), now)
	status.CompletionTime = new(wireTime(now))
	return []event{jobInvalid(message)}
}

func replicaStatuses(counts []roleCount) map[kubeflowv1.ReplicaType]*kubeflowv1.ReplicaStatus {
	statuses := make(map[kubeflowv1.ReplicaType]*kubeflowv1.ReplicaStatus, len(counts))
	for i := range counts {
		c := &counts[i]
		statuses[c.role.kind] = &kubeflowv1.ReplicaStatus{Active: c.active, Succeeded: c.succeeded, Failed: c.failed}
	}
	return statuses
}
