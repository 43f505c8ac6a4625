// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// fakeHandle is the scheduler as far as gate and barrier see it: one group,
// its pods, and what is done to them.
type fakeHandle struct {
	framework.Framework
	group       *schedulingv1beta1.PodGroup
	pods        map[string]*v1.Pod
	scheduled   []*v1.Pod
	activations int
	activated   []string // by the pod that stood for the gang
	waiting     map[types.UID]*fakeWaiting
	preparing   map[types.UID]*fakePreparing
	events      []string
	told        []string // to pods
}

func newFakeHandle(minCount int32) *fakeHandle {
	return &fakeHandle{
		pods:    map[string]*v1.Pod{},
		waiting: map[types.UID]*fakeWaiting{},
		group: &schedulingv1beta1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Name: "g", Namespace: "ns", UID: "g-uid"},
			Spec: schedulingv1beta1.PodGroupSpec{
				Priority: ptr.To[int32](0),
				SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
					Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: minCount},
				},
			},
		},
	}
}

func (h *fakeHandle) addPods(n int) {
	for range n {
		pod := podNamed(fmt.Sprintf("p%d", len(h.pods)))
		h.pods[pod.Name] = pod
	}
}

func podNamed(name string) *v1.Pod {
	group := "g"
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID(name)},
		Spec:       v1.PodSpec{Priority: ptr.To[int32](0), SchedulingGroup: &v1.PodSchedulingGroup{PodGroupName: &group}},
	}
}

func (h *fakeHandle) Activate(_ klog.Logger, pods map[string]*v1.Pod) {
	h.activations++
	for _, pod := range pods {
		h.activated = append(h.activated, pod.Name)
	}
}
func (h *fakeHandle) PodGroupManager() fwk.PodGroupManager { return fakeGroups{handle: h} }
func (h *fakeHandle) GetWaitingPod(uid types.UID) fwk.WaitingPod {
	if pod, ok := h.waiting[uid]; ok {
		return pod
	}
	return nil
}

func (h *fakeHandle) SnapshotSharedLister() fwk.SharedLister {
	return schedulercache.NewEmptySnapshot()
}
func (h *fakeHandle) GetPodInPreBind(uid types.UID) fwk.PodInPreBind {
	if pod, ok := h.preparing[uid]; ok {
		return pod
	}
	return nil
}

// fakePreparing is a pod in PreBind, until it is cancelled.
type fakePreparing struct {
	fwk.PodInPreBind
	cancelled atomic.Bool
}

func (p *fakePreparing) CancelPod(string) bool {
	p.cancelled.Store(true)
	return true
}

type fakeGroups struct {
	fwk.PodGroupManager
	handle *fakeHandle
}

func (g fakeGroups) PodGroups() fwk.PodGroupLister           { return fakeLister(g) }
func (g fakeGroups) PodGroupStates() fwk.PodGroupStateLister { return fakeStates(g) }

type fakeLister struct {
	fwk.PodGroupManager
	handle *fakeHandle
}

func (l fakeLister) Get(_, name string) (*schedulingv1beta1.PodGroup, error) {
	if l.handle.group == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, name)
	}
	return l.handle.group, nil
}

type fakeStates struct {
	fwk.PodGroupManager
	handle *fakeHandle
}

func (s fakeStates) Get(string, string) (fwk.PodGroupState, error) {
	if s.handle.group == nil && len(s.handle.pods) == 0 {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, "")
	}
	return fakeState{pods: s.handle.pods, scheduled: s.handle.scheduled}, nil
}

type fakeState struct {
	fwk.PodGroupState
	pods      map[string]*v1.Pod
	scheduled []*v1.Pod
}

func (s fakeState) AllPodsCount() int                   { return len(s.pods) }
func (s fakeState) ScheduledPods() []*v1.Pod            { return s.scheduled }
func (s fakeState) UnscheduledPods() map[string]*v1.Pod { return s.pods }

type fakeWaiting struct {
	fwk.WaitingPod
	mu      sync.Mutex
	verdict string
}

func (w *fakeWaiting) Allow(string) { w.set("allowed") }
func (w *fakeWaiting) Reject(string, string) bool {
	w.set("rejected")
	return true
}

func (w *fakeWaiting) set(verdict string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.verdict = verdict
}

type fakeRecorder struct {
	record.EventRecorder
	handle *fakeHandle
}

func (r *fakeRecorder) Event(_ runtime.Object, kind, reason, message string) {
	r.handle.events = append(r.handle.events, fmt.Sprintf("%s %s: %s", kind, reason, message))
}

// newPlugin is a plugin on the fake handle, its verdicts collected.
func newPlugin(t *testing.T, handle *fakeHandle, verdicts *[]string) *Plugin {
	t.Helper()
	report := newReporter(func(_ *schedulingv1beta1.PodGroup, c metav1.Condition) {
		if verdicts != nil {
			*verdicts = append(*verdicts, fmt.Sprintf("%s=%s: %s", c.Type, c.Status, c.Message))
		}
	}, &fakeRecorder{handle: handle}, func(pod *v1.Pod, reason, message string) {
		handle.told = append(handle.told, fmt.Sprintf("%s %s: %s", pod.Name, reason, message))
	})
	return &Plugin{handle: handle, gate: newGate(handle, "", report), report: report, rooms: newTestRooms(nil)}
}

// newTestRooms keeps none yet; current is the pod as the API has it, nil for gone.
func newTestRooms(current *v1.Pod) *rooms {
	return &rooms{clock: clock.RealClock{}, kept: map[types.UID]room{}, lost: newLost(), current: func(pod *v1.Pod) (*v1.Pod, error) {
		if current == nil {
			return nil, apierrors.NewNotFound(schema.GroupResource{}, pod.Name)
		}
		return current, nil
	}}
}

var epochZero = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
