// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"context"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/tutti-project/tutti/pkg/apis/tutti"
)

// reporter tells people what was decided: a condition on the PodGroup and, on
// a change, an event on it and on the object that made it. (Pods get theirs from
// the engine, when it has tried them.) The events are the older API's: its
// recorder tells apart events that differ in their text alone, where the
// scheduler's own would count the first one up and keep its text.
type reporter struct {
	verdict Verdict
	events  record.EventRecorder
	tellPod tellPod

	mu sync.Mutex
	// last is the verdict last told of each group.
	last map[types.UID]told
}

type told struct {
	placed  bool
	message string
}

// tellPod says why a pod is not tried, in its condition PodScheduled. It must
// not block.
type tellPod func(pod *v1.Pod, reason, message string)

// tellPods writes the conditions with a client that does not wait for such.
func tellPods(ctx context.Context, client kubernetes.Interface) tellPod {
	return func(pod *v1.Pod, reason, message string) {
		status := pod.Status.DeepCopy()
		if !podutil.UpdatePodCondition(status, &v1.PodCondition{
			Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: reason, Message: message,
			ObservedGeneration: podutil.CalculatePodConditionObservedGeneration(&pod.Status, pod.Generation, v1.PodScheduled),
		}) {
			return
		}
		if err := util.PatchPodStatus(ctx, client, pod.Name, pod.Namespace, &pod.Status, status); err != nil {
			utilruntime.HandleErrorWithContext(ctx, err, "Failed to tell a pod why it waits")
		}
	}
}

// leading tells events only once this process leads: one that stands by sees the
// same, and would tell everything twice.
type leading struct {
	record.EventRecorder
	leads <-chan struct{}
}

// Event implements record.EventRecorder.
func (l leading) Event(object runtime.Object, kind, reason, message string) {
	select {
	case <-l.leads:
		l.EventRecorder.Event(object, kind, reason, message)
	default:
	}
}

func newReporter(verdict Verdict, events record.EventRecorder, tellPod tellPod) *reporter {
	return &reporter{verdict: verdict, events: events, tellPod: tellPod, last: map[types.UID]told{}}
}

// placed: the quorum is reserved and the pods are being bound.
// domain is the narrowest around all members, those that ran before included.
func (r *reporter) placed(group *schedulingv1beta1.PodGroup, count tally, domain string) {
	message := fmt.Sprintf("placed %s", count)
	if domain != "" {
		message += " in " + domain
	}
	r.say(group, metav1.ConditionTrue, tutti.GangPlacedReason, message)
	r.event(group, v1.EventTypeNormal, tutti.GangPlacedReason, message)
}

// runs: the gang has its minimum without anything having been done now, such as
// after an edit of the minimum. That is news only if something else was told last.
func (r *reporter) runs(group *schedulingv1beta1.PodGroup, count tally, domain string) {
	r.mu.Lock()
	last, any := r.last[group.UID]
	r.mu.Unlock()
	if any && !last.placed {
		r.placed(group, count, domain)
	}
}

// refused: none of the gang's waiting pods is bound. (Members that run already
// go on running.)
func (r *reporter) refused(group *schedulingv1beta1.PodGroup, message string) {
	r.say(group, metav1.ConditionFalse, tutti.UnschedulableReason, message)
	r.event(group, v1.EventTypeWarning, "FailedScheduling", message)
}

// preempting: the gang will start when those have gone who must.
func (r *reporter) preempting(group *schedulingv1beta1.PodGroup, message string) {
	r.say(group, metav1.ConditionFalse, tutti.PreemptingReason, message)
	r.event(group, v1.EventTypeNormal, tutti.PreemptingReason, message)
}

// incomplete: the gang cannot be tried. Its pods have not been either, so they
// are told as well, with a reason of their own: an autoscaler must not add nodes
// for a gang that would not use them. Events are sent for news only.
func (r *reporter) incomplete(found found, news bool) {
	if found.group != nil {
		r.say(found.group, metav1.ConditionFalse, tutti.IncompleteReason, found.lack.text)
		if news {
			r.event(found.group, v1.EventTypeWarning, "GangIncomplete", found.lack.text)
		}
	}
	for _, pod := range found.pods {
		r.tellPod(pod, tutti.IncompleteReason, found.lack.text)
		if news {
			r.events.Event(pod, v1.EventTypeWarning, "GangIncomplete", found.lack.text)
		}
	}
}

func (r *reporter) say(group *schedulingv1beta1.PodGroup, status metav1.ConditionStatus, reason, message string) {
	r.verdict(group, metav1.Condition{Type: tutti.GangPlacedCondition, Status: status, Reason: reason, Message: message})
}

func (r *reporter) event(group *schedulingv1beta1.PodGroup, kind, reason, message string) {
	r.mu.Lock()
	now := told{placed: reason == tutti.GangPlacedReason, message: message}
	known := r.last[group.UID] == now
	r.last[group.UID] = now
	r.mu.Unlock()
	if known {
		return
	}
	r.events.Event(referenceTo(group), kind, reason, message)
	if owner := metav1.GetControllerOfNoCopy(group); owner != nil {
		r.events.Event(&v1.ObjectReference{
			APIVersion: owner.APIVersion, Kind: owner.Kind, Namespace: group.Namespace, Name: owner.Name, UID: owner.UID,
		}, kind, reason, message)
	}
}

func (r *reporter) forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.last, uid)
}

// referenceTo is the object that people know: what was projected says so.
func referenceTo(group *schedulingv1beta1.PodGroup) *v1.ObjectReference {
	return &v1.ObjectReference{
		APIVersion: group.APIVersion,
		Kind:       group.Kind,
		Namespace:  group.Namespace,
		Name:       group.Name,
		UID:        group.UID,
	}
}

// tally counts a gang's pods: those placed now, those that ran before, and all
// that exist.
type tally struct{ placed, running, all int }

func (t tally) String() string {
	noun := "pods"
	if t.all == 1 {
		noun = "pod"
	}
	now := t.placed + t.running
	switch {
	case t.running > 0:
		return fmt.Sprintf("%d more, now %d of %d %s,", t.placed, now, t.all, noun)
	case now < t.all:
		return fmt.Sprintf("%d of %d %s", now, t.all, noun)
	default:
		return fmt.Sprintf("%d %s", now, noun)
	}
}
