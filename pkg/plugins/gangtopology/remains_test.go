// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
)

// TestWhatIsLeftOfAGangIsKnownByItsMarks, and nothing else is taken for it.
func TestWhatIsLeftOfAGangIsKnownByItsMarks(t *testing.T) {
	const minimum = 4
	cases := map[string]struct {
		on, marked int           // pods on nodes, and how many of them are marked
		about      int           // pods that are about to be bound besides
		age        time.Duration // of the marks
		noGroup    bool
		ordered    bool // the pods are victims of an order that is under way
		goes       bool
	}{
		"some have gone":                               {on: 2, marked: 2, goes: true},
		"some have gone, and another was bound":        {on: 3, marked: 2, goes: true},
		"none has gone":                                {on: minimum, marked: minimum},
		"more than the minimum is left":                {on: minimum + 1, marked: 1},
		"members were lost, and none is marked":        {on: 2},
		"the rest is about to be bound":                {on: 2, marked: 2, about: 2},
		"the marks are stale":                          {on: 2, marked: 2, age: staleMark},
		"it is being evicted":                          {on: 2, marked: 2, ordered: true},
		"nobody knows its size, and all is marked":     {on: 2, marked: 2, noGroup: true, goes: true},
		"nobody knows its size, and not all is marked": {on: 2, marked: 1, noGroup: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			handle := newFakeHandle(minimum)
			clock := testingclock.NewFakeClock(epochZero)
			pods := boundPods(tc.on)
			for _, pod := range pods[:tc.marked] {
				pod.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue,
					Reason: v1.PodReasonPreemptionByScheduler, LastTransitionTime: metav1.NewTime(epochZero.Add(-tc.age)), Message: "why"}}
			}
			s := newEvictScene(t, pods...)
			handle.scheduled = append(handle.scheduled, pods...)
			for range tc.about {
				handle.scheduled = append(handle.scheduled, podNamed("about"))
			}
			if tc.noGroup {
				handle.group = nil
			}
			r := &remains{evictor: s.evictor, pods: s.pods, groups: handle.PodGroupManager(), clock: clock,
				marked: map[types.UID]*v1.Pod{}, going: map[types.NamespacedName]bool{}}
			for _, pod := range pods {
				r.see(pod)
			}
			if tc.ordered {
				s.orders["preemptor"] = &order{left: map[types.UID]bool{pods[0].UID: true}}
			}
			for key, example := range r.gangs() {
				r.finish(t.Context(), key, example)
			}
			if got := r.goes(theGang); got != tc.goes {
				t.Errorf("the gang goes: %t, want %t", got, tc.goes)
			}
			o := s.ordered("rest of " + types.UID(theGang.String()))
			if (o != nil) != tc.goes {
				t.Fatalf("it is ordered to go: %t, want %t", o != nil, tc.goes)
			}
			if o != nil && (len(o.victims) != tc.on || o.why != "why") {
				t.Errorf("%d pods go because %q, want all %d", len(o.victims), o.why, tc.on)
			}
		})
	}
}

func (s *evictScene) ordered(uid types.UID) *order {
	s.evictor.mu.Lock()
	defer s.evictor.mu.Unlock()
	return s.orders[uid]
}

// TestGangThatGoesIsNotBound: what is planned beside the rest of it comes too late.
func TestGangThatGoesIsNotBound(t *testing.T) {
	for name, tc := range map[string]struct {
		goes bool
		want string
	}{"it goes": {true, "p Unschedulable"}, "it stays": {false, "p Success"}} {
		t.Run(name, func(t *testing.T) {
			c := newCommit(t, 0, 1)
			c.plugin.remains = &remains{going: map[types.NamespacedName]bool{theGang: tc.goes}}
			c.permit("p", 1)
			if got := c.preBind("p"); got[0] != tc.want {
				t.Errorf("got %q, want %q", got[0], tc.want)
			}
		})
	}
}
