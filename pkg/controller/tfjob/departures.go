// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// A pod that goes was told to by the controller (the job is suspended, or has fewer replicas) or by somebody else (a drain, an eviction,
// a preemption, a user). Nothing in the pod says who it was, and it matters:
//
//	                 a pod of policy Never is   an exit with 0 since then
//	the controller   replaced                   says nothing
//	somebody else    lost: the job fails        is a success
//
// A controller knows that it was somebody else of a pod that it found in its place, in a reconcile of a job that runs, when nobody had told it
// to go, and that it did not delete itself. Of all others it may have been this controller or the one that led before: what goes while a
// controller takes over, or while a job is suspended, counts as the controller's own. So a loss that only a controller saw that did not
// lead, or that died before it had written it down, is made good by another pod. That is what becomes of a pod that goes while no controller
// runs, too, and the lesser evil: a job that fails for its own controller's deletions is lost, a replica that runs again goes on from its
// checkpoint.

// departure is a pod that goes, or the last that was seen of one that is gone and that somebody else deleted or that may have succeeded: its
// name and its status.
type departure struct {
	pod  *corev1.Pod
	own  bool      // the controller told it to go, for all that is known
	told time.Time // when; zero if that is not known
}

// endedBefore tells whether a pod, or the container that trains where that one's end is the replica's, had ended when it was told to go. The
// kubelet's time of the one is compared with the API server's of the other, to the second; what is not known to have been before was not.
func (d departure) endedBefore(job *kubeflowv1.TFJob) bool {
	if d.pod.DeletionTimestamp == nil {
		return true
	}
	ended := false
	for _, s := range d.pod.Status.ContainerStatuses {
		if endsWithTrainer(job) && s.Name != kubeflowv1.TFJobDefaultContainerName {
			continue
		}
		if t := s.State.Terminated; t == nil || t.FinishedAt.IsZero() || !t.FinishedAt.Time.Before(d.told) {
			return false
		}
		ended = true
	}
	return ended
}

// onCommand tells whether how a pod ended says nothing, for it ended on the controller's word.
func (d departure) onCommand(job *kubeflowv1.TFJob) bool { return d.own && !d.endedBefore(job) }

// attend is what a reconcile tells the ledger and learns from it: it has seen these pods, and takes along who has told which to go.
func (l *ledger) attend(v *view) {
	l.mu.Lock()
	defer l.mu.Unlock()
	job := v.stored.UID
	switch {
	case isTrue(&v.stored.Status, kubeflowv1.JobSuspended) || isFinished(&v.stored.Status):
		delete(l.present, job)
		l.own(job, func(string) bool { return true })
	case len(v.problems) == 0:
		wanted := map[string]bool{}
		for _, s := range v.slots() {
			wanted[s.name(v.job)] = true
		}
		for name, pod := range v.pods {
			if !wanted[name] {
				drop(l.present, job, pod.UID)
			} else if pod.DeletionTimestamp == nil {
				put(l.present, job, pod.UID, true)
			}
		}
		l.own(job, func(name string) bool { return !wanted[name] })
	}
	v.departed = maps.Clone(l.gone[job])
	v.going = map[types.UID]departure{}
	for _, pod := range v.pods {
		if pod.DeletionTimestamp != nil {
			l.noteTold(job, pod)
			told, known := l.toldToGo[job][pod.UID]
			if !known && pod.DeletionGracePeriodSeconds == nil { // it has been asked for, and the cache does not show it: see owned
				told = pod.DeletionTimestamp.Time
			}
			v.going[pod.UID] = departure{pod, l.isOwn(job, pod.UID), told}
		}
	}
}

// noteTold keeps when a pod was told to go. When it goes, the API server puts the time of that in the place of the end of its grace
// period, and the grace period is 0.
func (l *ledger) noteTold(job types.UID, pod *corev1.Pod) {
	grace := ptr.Deref(pod.DeletionGracePeriodSeconds, 0)
	if _, known := l.toldToGo[job][pod.UID]; !known && grace > 0 {
		put(l.toldToGo, job, pod.UID, pod.DeletionTimestamp.Add(-seconds(grace)))
	}
}

// own: of the chosen departures it does not matter any more who caused them. The ledger is locked.
func (l *ledger) own(job types.UID, chosen func(name string) bool) {
	for name, d := range l.gone[job] {
		if chosen(name) {
			d.own = true
			l.gone[job][name] = d
		}
	}
}

func (l *ledger) isOwn(job, pod types.UID) bool { return l.asked[job][pod] || !l.present[job][pod] }

// witness notes the last that was seen of a pod that is gone, if it is of interest. Pods of finished work are what cluster autoscalers
// and pod collectors delete first, and the kubelet takes a deleted pod away as soon as it has ended.
func (l *ledger) witness(job types.UID, pod *corev1.Pod, ofInterest bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if pod.DeletionTimestamp != nil {
		l.noteTold(job, pod) // it may be from before the end
	}
	own, told := l.isOwn(job, pod.UID), l.toldToGo[job][pod.UID]
	drop(l.toldToGo, job, pod.UID)
	drop(l.asked, job, pod.UID)
	drop(l.present, job, pod.UID)
	drop(l.gone, job, pod.Name) // what is known of the one before it
	if ofInterest && (!own || mayHaveSucceeded(pod)) {
		rest := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID, DeletionTimestamp: pod.DeletionTimestamp}, Status: pod.Status,
		}
		put(l.gone, job, pod.Name, departure{rest, own, told})
	}
}

// mayHaveSucceeded tells whether a pod, or the container in it that trains, ended well.
func mayHaveSucceeded(pod *corev1.Pod) bool {
	code, known := exitCode(pod)
	return pod.Status.Phase == corev1.PodSucceeded || known && code == 0
}
