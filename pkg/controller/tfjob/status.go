// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// roleCount is what the replicas of one role are doing.
type roleCount struct {
	role      *role
	history   history // with what this look has found
	active    int32
	succeeded int32
	failed    int32
	// lost are failed pods that stay failed; restarting are failed pods that are replaced.
	lost       []*corev1.Pod
	restarting []*corev1.Pod
	// waiting is how many replicas are between two pods; the next of them is due at nextDue.
	waiting int
	nextDue time.Time
	// spent is how many replicas have succeeded and left no pod.
	spent int
	// firstDone: the replica of index 0 has succeeded.
	firstDone bool
}

// count looks at every slot of every role. A pod that is being deleted while it runs is neither active nor failed: it is being
// replaced, and its end will be judged when it is there.
func count(v *view, now time.Time) []roleCount {
	counts := make([]roleCount, len(v.roles))
	for i := range v.roles {
		r := &v.roles[i]
		counts[i].role = r
		counts[i].history = historyFrom(v.stored.Status.ReplicaStatuses[r.kind], r.spec.RestartPolicy)
		counts[i].noteSurplus(v)
		for index := range r.replicas {
			name := slot{r, index}.name(v.job)
			switch pod := v.pods[name]; {
			case pod != nil:
				counts[i].add(v, pod, index, now)
			case !v.open[creation(kindPod, name)]:
				last := v.departed[name]
				counts[i].addAbsent(v, index, last, now)
				if isLoss(v, r, last) {
					counts[i].failed++
					counts[i].lost = append(counts[i].lost, last.pod)
				}
			}
		}
	}
	return counts
}

// leaving is a pod with what is known of its going, if it goes.
func (v *view) leaving(pod *corev1.Pod) departure {
	if d, ok := v.going[pod.UID]; ok {
		return d
	}
	return departure{pod: pod}
}

// noteSurplus remembers successes beyond the number of replicas, which may grow again.
func (c *roleCount) noteSurplus(v *view) {
	for name, pod := range v.pods {
		if v.leaving(pod).phaseOf(v.job, c.role) != corev1.PodSucceeded {
			continue
		}
		index, err := strconv.Atoi(strings.TrimPrefix(name, v.job.Name+"-"+c.role.name+"-"))
		if err == nil && c.role.replicas <= index && index < maxReplicas {
			c.history.succeeded[index] = true
		}
	}
}

func (c *roleCount) add(v *view, pod *corev1.Pod, index int, now time.Time) {
	leaving := v.leaving(pod)
	if c.history.succeeded[index] {
		leaving.own = false // it is known already
	}
	switch phase := leaving.phaseOf(v.job, c.role); {
	case phase == corev1.PodSucceeded:
		c.succeeded++
		c.history.succeeded[index] = true
		code, known := exitCode(pod)
		c.firstDone = c.firstDone || index == 0 && known && code == 0
	case phase != corev1.PodFailed:
		c.history.noteContainers(index, pod)
		if isActive(pod) {
			c.active++
		}
	case isRestartable(c.role.spec.RestartPolicy, pod):
		c.failed++
		c.history.noteFailure(index, pod, now)
		c.restarting = append(c.restarting, pod)
	case leaving.onCommand(v.job): // it is replaced when it is gone
	default:
		c.failed++
		c.lost = append(c.lost, pod)
	}
}

// isLoss tells whether a pod is gone that is not to be replaced: it had started, and somebody else told it to go.
func isLoss(v *view, r *role, last departure) bool {
	if last.pod == nil || last.own || r.spec.RestartPolicy != kubeflowv1.RestartPolicyNever || isExpendable(v.job, r) || isRejected(last.pod) {
		return false
	}
	phase := phaseOf(v.job, r, last.pod)
	return phase == corev1.PodRunning || phase == corev1.PodFailed
}

func (c *roleCount) addAbsent(v *view, index int, last departure, now time.Time) {
	if last.pod != nil && last.phaseOf(v.job, c.role) == corev1.PodSucceeded {
		c.history.succeeded[index] = true
	}
	due := c.history.restartsAfter(index, now)
	switch {
	case c.history.succeeded[index]:
		c.succeeded++
		c.spent++
		c.firstDone = c.firstDone || index == 0
	case due.After(now):
		if c.waiting == 0 || due.Before(c.nextDue) {
			c.nextDue = due
		}
		c.waiting++
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

// hasFailed: the role has lost a pod that the job cannot do without, or all that could still have brought it to its end.
func (c *roleCount) hasFailed(job *kubeflowv1.TFJob) bool {
	isOver := c.role.decides && int(c.succeeded)+len(c.lost) == c.role.replicas
	return len(c.lost) > 0 && (isOver || !isExpendable(job, c.role))
}

// isExpendable: a dynamic job goes on without some of its workers.
func isExpendable(job *kubeflowv1.TFJob, r *role) bool {
	return job.Spec.EnableDynamicWorker && r.kind == kubeflowv1.TFJobReplicaTypeWorker
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
		if (len(c.restarting) > 0 || c.waiting > 0) && restarting == nil {
			restarting = c
		}
	}
	if backoff(status, job) {
		return giveUp(status, failedCondition(backoffMessage(job)), now)
	}
	if deadline := deadlineOf(status, job); deadline != nil && !now.Before(*deadline) {
		return giveUp(status, failedCondition(deadlineMessage(job)), now)
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
	setCondition(status, failedCondition(failedMessage(job, c)), now)
	status.CompletionTime = new(wireTime(now))
	var events []event
	for _, pod := range c.lost {
		if code, known := exitCode(pod); known {
			events = append(events, exitedWithCode(pod, code))
		}
	}
	return append(events, jobFailed(job, c))
}

// giveUp ends a job that has reached one of its limits.
func giveUp(status *kubeflowv1.JobStatus, failed kubeflowv1.JobCondition, now time.Time) []event {
	setCondition(status, failed, now)
	status.CompletionTime = new(wireTime(now))
	return []event{limitReached(failed.Message)}
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
		statuses[c.role.kind] = &kubeflowv1.ReplicaStatus{
			Active:           c.active,
			Succeeded:        c.succeeded,
			Failed:           c.failed,
			SucceededIndexes: c.history.succeeded.String(),
			Restarts:         c.history.restartList(),
		}
	}
	return statuses
}
