// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/tutti-project/tutti/pkg/apis/tutti"
)

// reporter tells people what was decided: a condition on the PodGroup and, on
// a change, an event.
type reporter struct {
	handle  fwk.Handle
	verdict Verdict

	mu sync.Mutex
	// last is the verdict last told of each group.
	last map[types.UID]string
}

func newReporter(handle fwk.Handle, verdict Verdict) *reporter {
	return &reporter{handle: handle, verdict: verdict, last: map[types.UID]string{}}
}

// placed: the quorum is reserved and the pods are being bound.
func (r *reporter) placed(group *schedulingv1beta1.PodGroup, pods int, domain string) {
	message := fmt.Sprintf("placed %d pods in %s", pods, domain)
	r.verdict(group, metav1.Condition{
		Type: tutti.GangPlacedCondition, Status: metav1.ConditionTrue, Reason: tutti.GangPlacedReason, Message: message,
	})
	r.event(group, v1.EventTypeNormal, tutti.GangPlacedReason, message)
}

// refused: none of the gang's waiting pods is bound. (Members that run already
// go on running.)
func (r *reporter) refused(group *schedulingv1beta1.PodGroup, message string) {
	r.verdict(group, metav1.Condition{
		Type: tutti.GangPlacedCondition, Status: metav1.ConditionFalse, Reason: tutti.UnschedulableReason, Message: message,
	})
	r.event(group, v1.EventTypeWarning, "FailedScheduling", message)
}

// incomplete: the gang cannot be tried.
func (r *reporter) incomplete(group *schedulingv1beta1.PodGroup, message string) {
	r.verdict(group, metav1.Condition{
		Type: tutti.GangPlacedCondition, Status: metav1.ConditionFalse, Reason: tutti.IncompleteReason, Message: message,
	})
	r.event(group, v1.EventTypeWarning, "GangIncomplete", message)
}

func (r *reporter) event(group *schedulingv1beta1.PodGroup, kind, reason, message string) {
	r.mu.Lock()
	told := r.last[group.UID] == message
	r.last[group.UID] = message
	r.mu.Unlock()
	if told {
		return
	}
	r.handle.EventRecorder().Eventf(referenceTo(group), nil, kind, reason, "Scheduling", "%s", message)
}

func (r *reporter) forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.last, uid)
}

// referenceTo is the object that people know: the CRD's.
func referenceTo(group *schedulingv1beta1.PodGroup) *v1.ObjectReference {
	return &v1.ObjectReference{
		APIVersion: v1alpha1.SchemeGroupVersion.String(),
		Kind:       "PodGroup",
		Namespace:  group.Namespace,
		Name:       group.Name,
		UID:        group.UID,
	}
}
