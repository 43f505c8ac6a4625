// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	"github.com/tutti-project/tutti/pkg/apis/tutti"
)

// history is what is known of a role's replicas beyond the lives of their pods. It is kept in the job's status, so it is as old as what
// the API server has confirmed and nothing can be counted twice: the pod of a slot bears the number of its attempt, and a failure
// counts if that attempt is the present one.
type history struct {
	succeeded indexSet
	restarts  map[int]kubeflowv1.ReplicaRestarts
}

// historyFrom reads the history of a role. Under Always nothing succeeds, whatever was written down.
func historyFrom(status *kubeflowv1.ReplicaStatus, policy kubeflowv1.RestartPolicy) history {
	h := history{succeeded: indexSet{}, restarts: map[int]kubeflowv1.ReplicaRestarts{}}
	if status == nil {
		return h
	}
	if policy != kubeflowv1.RestartPolicyAlways {
		h.succeeded = parseIndexes(status.SucceededIndexes)
	}
	for _, r := range status.Restarts {
		h.restarts[int(r.Index)] = r
	}
	return h
}

// restartList is the history's restarts as the status holds them.
func (h history) restartList() []kubeflowv1.ReplicaRestarts {
	var list []kubeflowv1.ReplicaRestarts
	for _, r := range h.restarts {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b kubeflowv1.ReplicaRestarts) int { return cmp.Compare(a.Index, b.Index) })
	return list
}

// change edits the entry of an index.
func (h history) change(index int, edit func(*kubeflowv1.ReplicaRestarts)) {
	r := h.restarts[index]
	r.Index = int32(index)
	edit(&r)
	h.restarts[index] = r
}

// noteFailure counts the failure of a pod that is to be replaced, once.
func (h history) noteFailure(index int, pod *corev1.Pod, now time.Time) {
	if attemptOf(pod) < h.restarts[index].Attempt {
		return
	}
	h.noteContainers(index, pod)
	h.change(index, func(r *kubeflowv1.ReplicaRestarts) {
		r.Attempt = min(attemptOf(pod)+1, maxAttempt)
		settleContainers(r)
		if !isDisrupted(pod) {
			r.Faults++
		}
		if r.LastFailureTime != nil && now.Sub(r.LastFailureTime.Time) < calm {
			r.InARow++
		} else {
			r.InARow = 1
		}
		r.LastFailureTime = new(wireTime(now))
	})
}

// noteContainers follows the container restarts of a slot's pod. Those of the one before it are kept when the next is seen, which begins at
// zero. That a slot is empty says nothing: its pod may be out of sight, where somebody has taken it out of the job or the cache is behind.
func (h history) noteContainers(index int, pod *corev1.Pod) {
	n, last := containerRestarts(pod), h.restarts[index]
	isAnother := last.PodUID != "" && last.PodUID != pod.UID
	if attemptOf(pod) < last.Attempt || !isAnother && n <= last.ContainerRestarts {
		return
	}
	h.change(index, func(r *kubeflowv1.ReplicaRestarts) {
		if isAnother {
			settleContainers(r)
		}
		if n > 0 {
			r.ContainerRestarts, r.PodUID = n, pod.UID
		}
	})
}

// settleContainers makes the container restarts of a former pod faults.
func settleContainers(r *kubeflowv1.ReplicaRestarts) {
	r.Faults += r.ContainerRestarts
	r.ContainerRestarts, r.PodUID = 0, ""
}

// restartsAfter is when the next pod of an index may be made. A failure that is still to come was seen by another clock, and is nothing
// to wait for.
func (h history) restartsAfter(index int, now time.Time) time.Time {
	r, ok := h.restarts[index]
	if !ok || r.LastFailureTime == nil || r.LastFailureTime.After(now) {
		return time.Time{}
	}
	return r.LastFailureTime.Add(restartDelay(r.InARow))
}

// mayRun tells whether a pod may be made for an index that has none. One that has succeeded is never run again.
func (h history) mayRun(index int, now time.Time) bool {
	return !h.succeeded[index] && !h.restartsAfter(index, now).After(now)
}

const (
	// firstDelay is the wait before the second restart in a row; the first is made at once, and each later one waits twice as long as
	// the one before.
	firstDelay = 10 * time.Second
	lastDelay  = 5 * time.Minute
	// calm is how long a replica has to live for its next failure to be the first in a row again.
	calm = 10 * time.Minute
)

func restartDelay(inARow int32) time.Duration {
	if inARow <= 1 {
		return 0
	}
	return min(lastDelay, firstDelay<<min(inARow-2, 10))
}

// maxAttempt bounds what is believed of an annotation, which anybody may have written.
const maxAttempt = 1_000_000

func attemptOf(pod *corev1.Pod) int32 {
	n, err := strconv.ParseInt(pod.Annotations[tutti.AttemptAnnotation], 10, 32)
	if err != nil || n < 0 || n > maxAttempt {
		return 0
	}
	return int32(n)
}

func containerRestarts(pod *corev1.Pod) int32 {
	var sum int32
	for _, s := range containerStatuses(pod) {
		sum += s.RestartCount
	}
	return sum
}
