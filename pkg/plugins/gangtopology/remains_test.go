// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
)

// marked puts a mark of this age on pods, as a preemption does.
func marked(pods []*v1.Pod, age time.Duration) {
	for _, pod := range pods {
		pod.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue,
			Reason: v1.PodReasonPreemptionByScheduler, LastTransitionTime: metav1.NewTime(epochZero.Add(-age)), Message: "why"}}
	}
}

func aboutToBeBound(n int) []*v1.Pod {
	pods := make([]*v1.Pod, n)
	for i := range pods {
		pods[i] = podNamed(fmt.Sprint("about-", i))
	}
	return pods
}

// boundAround are pods with nodes: the first of them, anew, were made and bound a second
// after the epoch, the others ten seconds before the mark, or long before if they run.
func boundAround(all, anew int, mark time.Time, running bool) []*v1.Pod {
	pods := boundPods(all)
	for i, pod := range pods {
		at := mark.Add(-10 * time.Second)
		if i < anew {
			at = epochZero.Add(time.Second)
		}
		pod.CreationTimestamp = metav1.NewTime(at)
		if running {
			at = at.Add(-startsFor)
		}
		pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)}}
	}
	return pods
}

// TestWhatIsLeftOfAGangIsKnownByItsMarks, and nothing else is taken for it.
func TestWhatIsLeftOfAGangIsKnownByItsMarks(t *testing.T) {
	const minimum = 4
	cases := map[string]struct {
		on, marked int           // pods on nodes, and how many of them are marked
		about      int           // pods that are about to be bound besides
		begun      bool          // this process has evicted others of the gang
		age        time.Duration // of the marks
		noGroup    bool
		ordered    bool // the pods are victims of an order that is under way
		went       bool // marked pods have gone besides
		placed     bool // the gang has been placed after that
		anew       int  // how many of those on nodes were made after that
		running    bool // those on nodes have been for long
		goes       bool
	}{
		"some have gone":                                         {on: 2, marked: 2, goes: true},
		"some have gone, and another was bound":                  {on: 3, marked: 2, goes: true},
		"none has gone":                                          {on: minimum, marked: minimum},
		"more than the minimum is left":                          {on: minimum + 1, marked: 1},
		"members were lost, and none is marked":                  {on: 2},
		"the rest is about to be bound":                          {on: 2, marked: 2, about: 2},
		"one was bound too late to be marked":                    {on: 1, begun: true, goes: true},
		"whole gang":                                             {on: minimum, begun: true},
		"nothing is left":                                        {begun: true},
		"the marks are stale":                                    {on: 2, marked: 2, age: staleMark},
		"it is being evicted":                                    {on: 2, marked: 2, ordered: true},
		"all that were marked have gone, and one was bound late": {on: 1, went: true, goes: true},
		"that was long ago":                                      {on: 1, went: true, age: staleMark},
		"it is being bound anew, in part":                        {on: 2, went: true, anew: 2},
		"it is being bound anew beside a late one":               {on: 2, went: true, anew: 1},
		"it has been placed anew":                                {on: 1, went: true, placed: true},
		"it is whole anew":                                       {on: minimum, went: true, anew: minimum},
		"spares were evicted, then members were lost":            {on: 2, went: true, running: true},
		"one of it is about to be bound":                         {on: 1, about: 1, went: true},
		"nobody knows its size, and all is marked":               {on: 2, marked: 2, noGroup: true, goes: true},
		"nobody knows its size, and not all is marked":           {on: 2, marked: 1, noGroup: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			handle := newFakeHandle(minimum)
			clock := testingclock.NewFakeClock(epochZero)
			pods := boundAround(tc.on, tc.anew, epochZero.Add(-tc.age), tc.running)
			marked(pods[:tc.marked], tc.age)
			s := newEvictScene(t, pods...)
			handle.scheduled = append(handle.scheduled, pods...)
			handle.scheduled = append(handle.scheduled, aboutToBeBound(tc.about)...)
			if tc.noGroup {
				handle.group = nil
			}
			s.evictor.groups = handle.PodGroupManager()
			again := 0
			r := newRemains(s.evictor, handle, clock, func(types.NamespacedName) { again++ })
			if tc.begun {
				s.evictor.going[theGang] = &departure{begun: true}
			}
			for _, pod := range pods {
				r.see(pod)
			}
			if tc.ordered {
				s.orders["preemptor"] = &order{left: map[types.UID]bool{pods[0].UID: true}}
			}
			if tc.went {
				gone := podNamed("gone")
				gone.Spec.NodeName = "n"
				marked([]*v1.Pod{gone}, tc.age)
				r.see(gone)
				r.forget(gone)
			}
			if tc.placed {
				r.begins(theGang)
			}
			r.look(t.Context())
			if got := r.goes(theGang); got != tc.goes {
				t.Errorf("the gang goes: %t, want %t", got, tc.goes)
			}
			o := s.ordered("rest of " + types.UID(theGang.String()))
			if (o != nil) != tc.goes {
				t.Fatalf("it is ordered to go: %t, want %t", o != nil, tc.goes)
			}
			if want := map[bool]string{true: "why", false: "evicted with the rest of its gang"}[tc.marked > 0]; o != nil && (len(o.victims) != tc.on || o.why != want) {
				t.Errorf("%d pods go because %q, want all %d because %q", len(o.victims), o.why, tc.on, want)
			}
			if (again > 0) != (tc.begun && !tc.goes) {
				t.Errorf("it is planned again %d times", again)
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
			s := newEvictScene(t)
			c.plugin.remains = newRemains(s.evictor, c.handle, c.plugin.gate.clock, nil)
			if tc.goes {
				s.leave(theGang)
			}
			c.permit("p", 1)
			if got := c.preBind("p"); got[0] != tc.want {
				t.Errorf("got %q, want %q", got[0], tc.want)
			}
			// One that comes to a round whose minimum is being bound already.
			s.leave(theGang)
			c.permit("extra", 1)
			if got := c.preBind("extra"); got[0] != "extra Unschedulable" {
				t.Errorf("got %q of one more", got[0])
			}
		})
	}
}
