// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/tutti-project/tutti/pkg/apis/tutti"
)

var theGang = types.NamespacedName{Namespace: "ns", Name: "g"}

// anyRoom is what a gang needs that wants room and nothing else.
var anyRoom = needs{help: [helps]bool{helpRoom: true}}

// gateScene drives a gate step by step: time moves when told to, and the
// gate's goroutine is replaced by calls of look.
type gateScene struct {
	*testing.T
	handle   *fakeHandle
	gate     *gate
	clock    *testingclock.FakeClock
	verdicts []string
}

func newGateScene(t *testing.T, minCount int32, pods int) *gateScene {
	s := &gateScene{T: t, handle: newFakeHandle(minCount), clock: testingclock.NewFakeClock(epochZero)}
	s.handle.addPods(pods)
	s.gate = newPlugin(t, s.handle, &s.verdicts).gate
	s.gate.clock = s.clock
	return s
}

// arrive is what the engine and the gate's informer do with a new member.
func (s *gateScene) arrive() bool {
	passed := s.gate.admits(theGang, podNamed("p0"))
	s.gate.wake(theGang)
	return passed
}

// after lets time pass and the gate look.
func (s *gateScene) after(d time.Duration) {
	s.clock.Step(d)
	s.gate.look(klog.Background(), theGang)
	s.gate.turns(klog.Background())
}

func (s *gateScene) wantActivations(want int) {
	s.Helper()
	if s.handle.activations != want {
		s.Fatalf("%d activations, want %d", s.handle.activations, want)
	}
}

// admitted is what the engine sees when it runs PreEnqueue on activation.
func (s *gateScene) admitted() bool { return s.gate.admits(theGang, podNamed("p0")) }

func TestGateLetsACompleteGangInOnce(t *testing.T) {
	s := newGateScene(t, 2, 2)
	if s.arrive() {
		t.Fatal("a pod passed by itself: its siblings may not be queued yet")
	}
	s.after(settle)
	s.wantActivations(1)
	if !s.admitted() {
		t.Fatal("the gang is not let in")
	}
	s.gate.takenUp(theGang)
	if s.admitted() {
		t.Fatal("the gate stays open after the planner took the gang up")
	}
}

func TestGateWaitsForTheQuorum(t *testing.T) {
	s := newGateScene(t, 3, 2)
	s.arrive()
	s.after(time.Hour)
	s.wantActivations(0)
	s.handle.addPods(1)
	s.arrive()
	s.after(settle)
	s.wantActivations(1)
}

func TestGateWaitsForThePodGroup(t *testing.T) {
	s := newGateScene(t, 1, 1)
	group := s.handle.group
	s.handle.group = nil
	s.arrive()
	s.after(time.Hour)
	s.wantActivations(0)
	s.handle.group = group
	s.gate.wake(theGang)
	s.after(settle)
	s.wantActivations(1)
}

func TestGateRepeatsALostActivation(t *testing.T) {
	s := newGateScene(t, 1, 1)
	s.arrive()
	s.after(settle)
	s.after(firstRecheck)
	s.after(2 * firstRecheck)
	s.wantActivations(3)
	s.gate.takenUp(theGang)
	s.after(time.Hour)
	s.wantActivations(3)
}

// refusedGang is a scene in which the planner has just said no.
func refusedGang(t *testing.T) *gateScene {
	s := newGateScene(t, 1, 1)
	s.arrive()
	s.after(settle)
	s.gate.takenUp(theGang)
	s.gate.refuse(theGang, anyRoom)
	if s.admitted() {
		t.Fatal("a refused gang passes")
	}
	return s
}

func TestGateKeepsARefusedGangUntilTheClusterChanges(t *testing.T) {
	s := refusedGang(t)
	s.after(lostEvent - time.Second)
	s.wantActivations(1)
	s.gate.changed()
	s.after(firstRetry)
	s.wantActivations(2)
}

func TestGateTriesARefusedGangAgainWhenAnEventWasLost(t *testing.T) {
	s := refusedGang(t)
	s.after(lostEvent)
	s.wantActivations(2)
}

func TestGateSeesRoomThatCameFreeWhileThePlannerLooked(t *testing.T) {
	s := newGateScene(t, 1, 1)
	s.arrive()
	s.after(settle)
	s.gate.takenUp(theGang)
	s.gate.changed()
	s.gate.refuse(theGang, anyRoom)
	s.after(firstRetry)
	s.wantActivations(2)
}

// TestGateDoubtsARefusalJustAfterAChange: the engine may have heard of it later. The
// gang is tried once more, and not again.
func TestGateDoubtsARefusalJustAfterAChange(t *testing.T) {
	withClaim := needs{help: [helps]bool{helpRoom: true, helpVolumes: true}}
	for name, tc := range map[string]struct {
		change func(*gate)
		needs  needs
		early  time.Duration // before the gang is taken up
		doubts bool
	}{
		"room":                   {(*gate).changed, anyRoom, settle, true},
		"room long ago":          {(*gate).changed, anyRoom, engineLag, false},
		"what it needs besides":  {func(g *gate) { g.helped(helpVolumes, nil) }, withClaim, settle, true},
		"what it does not need":  {func(g *gate) { g.helped(helpVolumes, nil) }, anyRoom, settle, false},
		"room, for one in parts": {(*gate).changed, needs{help: anyRoom.help, partly: true}, settle, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newGateScene(t, 1, 1)
			s.arrive()
			tc.change(s.gate)
			s.after(tc.early)
			s.gate.takenUp(theGang)
			s.gate.refuse(theGang, tc.needs)
			if held := len(s.gate.waiting(types.NamespacedName{})) > 0; held != (tc.doubts && tc.needs.partly) {
				t.Errorf("others wait for it: %t", held)
			}
			s.after(engineLag)
			if !tc.doubts {
				s.wantActivations(1)
				return
			}
			s.wantActivations(2)
			s.gate.takenUp(theGang)
			s.gate.refuse(theGang, tc.needs)
			s.after(lostEvent - engineLag)
			s.wantActivations(2)
		})
	}
}

// TestGateTriesAGangNoMoreOftenForItsDoubts while changes come one upon another.
func TestGateTriesAGangNoMoreOftenForItsDoubts(t *testing.T) {
	s := refusedGang(t)
	for range 20 { // until it is tried once in lastTurn
		s.gate.changed()
		s.after(lastTurn)
		s.gate.takenUp(theGang)
		s.gate.refuse(theGang, anyRoom)
	}
	tried := s.handle.activations
	const step = 100 * time.Millisecond
	for range 10 * lastTurn / step {
		s.gate.changed()
		s.after(step)
		if s.admitted() {
			s.gate.takenUp(theGang)
			s.gate.refuse(theGang, anyRoom)
		}
	}
	if n := s.handle.activations - tried; n > 10 {
		t.Errorf("tried %d times in %s", n, 10*lastTurn)
	}
}

func TestGateBacksOffFromAGangThatFailsAgainAndAgain(t *testing.T) {
	s := refusedGang(t)
	wait := firstRetry
	for attempt := 2; attempt < 12; attempt++ {
		s.gate.changed()
		s.after(wait - time.Millisecond)
		s.wantActivations(attempt - 1)
		s.after(time.Millisecond)
		s.wantActivations(attempt)
		s.gate.takenUp(theGang)
		s.gate.refuse(theGang, anyRoom)
		wait = min(lastTurn, 2*wait)
	}
	s.gate.placed(theGang)
	s.clock.Step(calm + time.Second)
	s.gate.wake(theGang)
	s.after(settle)
	s.wantActivations(12)
	s.gate.takenUp(theGang)
	s.gate.refuse(theGang, anyRoom)
	s.gate.changed()
	s.after(firstRetry)
	s.wantActivations(13)
}

func TestGateRequeuesAGangThatAnotherPluginRefused(t *testing.T) {
	s := newGateScene(t, 1, 1)
	s.arrive()
	s.after(settle)
	s.gate.takenUp(theGang)
	if s.admitted() { // the engine puts the pods back
		t.Fatal("the gang passes without backing off")
	}
	s.after(firstRetry)
	s.wantActivations(2)
}

// TestGateReportsPodsThatDisagree on what the engine demands to be the same in all
// of them, whether they wait, run or go: it would refuse to try the gang, and tell
// nobody but its log.
func TestGateReportsPodsThatDisagree(t *testing.T) {
	never := ptr.To(v1.PreemptNever)
	bound := func(edit func(*v1.Pod)) *v1.Pod {
		pod := boundPods(1)[0]
		edit(pod)
		return pod
	}
	for name, tc := range map[string]struct {
		waiting func(*v1.Pod)
		bound   *v1.Pod
		words   string
	}{
		"priority":                       {waiting: func(pod *v1.Pod) { pod.Spec.Priority = ptr.To[int32](7) }, words: "in priority (0 and, of pod p1, 7)"},
		"preemption policy":              {waiting: func(pod *v1.Pod) { pod.Spec.PreemptionPolicy = never }, words: "in preemptionPolicy (PreemptLowerPriority and, of pod p1, Never)"},
		"priority of one that runs":      {bound: bound(func(pod *v1.Pod) { pod.Spec.Priority = ptr.To[int32](7) }), words: "in priority (0 and, of pod victim-0 on node n, 7)"},
		"policy of one that runs":        {bound: bound(func(pod *v1.Pod) { pod.Spec.PreemptionPolicy = never }), words: "in preemptionPolicy (PreemptLowerPriority and, of pod victim-0 on node n, Never)"},
		"scheduler of one that runs":     {bound: bound(func(pod *v1.Pod) { pod.Spec.SchedulerName = "other" }), words: "in schedulerName ( and, of pod victim-0 on node n, other)"},
		"priority of one that goes":      {bound: bound(func(pod *v1.Pod) { pod.Spec.Priority, pod.DeletionTimestamp = ptr.To[int32](7), &metav1.Time{} }), words: "in priority (0 and, of pod victim-0 on node n that is being deleted, 7)"},
		"one that waits is going":        {waiting: func(pod *v1.Pod) { pod.Spec.Priority, pod.DeletionTimestamp = ptr.To[int32](7), &metav1.Time{} }, words: "in priority (0 and, of pod p1 that is being deleted, 7)"},
		"the default policy is no other": {waiting: func(pod *v1.Pod) { pod.Spec.PreemptionPolicy = ptr.To(v1.PreemptLowerPriority) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newGateScene(t, 1, 3)
			if tc.waiting != nil {
				tc.waiting(s.handle.pods["p1"])
			}
			if tc.bound != nil {
				s.handle.scheduled = []*v1.Pod{tc.bound}
			}
			s.arrive()
			s.after(settle)
			if tc.words == "" {
				s.wantActivations(1)
				return
			}
			s.after(firstTell)
			s.wantActivations(0)
			s.wantVerdict("GangPlaced=False: the gang's pods differ " + tc.words)
		})
	}
}

// TestGateTellsOfManyPodsThatDisagreeAlwaysTheSame, or it would take each look for
// news and tell nothing.
func TestGateTellsOfManyPodsThatDisagreeAlwaysTheSame(t *testing.T) {
	s := newGateScene(t, 20, 20)
	for name, pod := range s.handle.pods {
		if name != "p0" {
			pod.Spec.Priority = ptr.To[int32](7)
		}
	}
	s.arrive()
	s.after(settle)
	s.after(firstTell)
	s.wantVerdict("GangPlaced=False: the gang's pods differ in priority (0 and, of pod p1, 7)")
}

func TestGateTellsAGangThatLacksPodsForAWhile(t *testing.T) {
	s := newGateScene(t, 3, 2)
	s.arrive()
	s.after(settle)
	s.after(firstTell - time.Millisecond)
	s.wantVerdict("")
	s.after(time.Millisecond)
	s.wantVerdict("GangPlaced=False: waiting for pods: 2 exist, and the gang's minimum is 3")
	s.after(time.Hour)
	if len(s.verdicts) != 1 {
		t.Errorf("told again: %q", s.verdicts)
	}
}

// TestGateHearsOfTheLastPodBeforeTheEngine, which then puts it beside its siblings
// without asking: the gang is tried all the same, and the gate does not look much.
func TestGateHearsOfTheLastPodBeforeTheEngine(t *testing.T) {
	for name, tc := range map[string]struct {
		event, behind func(*gateScene)
	}{
		"a pod":             {func(s *gateScene) { s.gate.podAdded(podNamed("p2")) }, func(s *gateScene) { s.handle.addPods(1) }},
		"a smaller minimum": {func(s *gateScene) { s.gate.wake(theGang) }, func(s *gateScene) { s.handle.group.Spec.SchedulingPolicy.Gang.MinCount = 2 }},
	} {
		for late, looks := range map[time.Duration]int{firstTell: 1, 5 * firstTell: 3, 10 * lastTell: 20} {
			t.Run(fmt.Sprint(name, " after ", late), func(t *testing.T) {
				s := newGateScene(t, 3, 2)
				s.arrive()
				s.after(settle)
				s.after(firstTell)
				s.wantVerdict("GangPlaced=False: waiting for pods")
				tc.event(s)
				s.after(settle)
				told, n := len(s.verdicts), 0
				look := func() {
					wait := s.gate.gangs[theGang].due.Sub(s.clock.Now())
					if wait <= 0 {
						t.Fatal("the gate never looks again")
					}
					s.after(wait)
					n++
				}
				for begin := s.clock.Now(); s.clock.Since(begin) < late; {
					s.wantActivations(0)
					look()
				}
				if n > looks {
					t.Errorf("%d looks in %s, want at most %d", n, late, looks)
				}
				if len(s.verdicts) > told {
					t.Errorf("told again and again: %q", s.verdicts)
				}
				tc.behind(s)
				look()
				s.wantActivations(1)
			})
		}
	}
}

// TestGateLetsAGangRestThatWasTold what it lacks: nobody waits for it, and what the
// engine asks about it ends that at once.
func TestGateLetsAGangRestThatWasTold(t *testing.T) {
	s := newGateScene(t, 3, 2)
	s.arrive()
	s.after(settle)
	s.after(firstTell)
	if held := s.gate.waiting(types.NamespacedName{}); len(held) != 0 {
		t.Errorf("%v could be tried, though it lacks pods", held)
	}
	s.handle.addPods(1)
	s.admitted()
	if held := s.gate.waiting(types.NamespacedName{}); len(held) != 1 {
		t.Error("it has its pods, and nobody waits for it")
	}
	s.after(settle)
	s.wantActivations(1)
}

func (s *gateScene) wantVerdict(want string) {
	s.Helper()
	got := ""
	if len(s.verdicts) > 0 {
		got = s.verdicts[len(s.verdicts)-1]
	}
	if !strings.HasPrefix(got, want) || (want == "") != (got == "") {
		s.Fatalf("verdicts %q, want last %q", s.verdicts, want)
	}
}

func TestGateKeepsAnEventThatComesWhileItLooks(t *testing.T) {
	s := newGateScene(t, 2, 1)
	s.arrive()
	s.clock.Step(settle)
	if s.gate.complete(theGang).complete || !s.gate.isDue(theGang) {
		t.Fatal("want a gang that is due and not complete")
	}
	s.handle.addPods(1)
	s.arrive() // between the look and its end
	s.gate.rest(theGang, found{})
	s.after(settle)
	s.wantActivations(1)
}

func TestGateForgetsADeletedGang(t *testing.T) {
	s := refusedGang(t)
	group := s.handle.group
	s.handle.group, s.handle.pods = nil, nil
	s.gate.forget(group)
	if len(s.gate.gangs) != 0 || len(s.gate.line.idle) != 0 || len(s.gate.line.waiting) != 0 || len(s.gate.report.last) != 0 {
		t.Errorf("still remembered: %v %v", s.gate.gangs, s.gate.report.last)
	}
}

func TestGateSlowsDownAGangWhoseBindingsFail(t *testing.T) {
	s := newGateScene(t, 1, 1)
	s.arrive()
	s.after(settle)
	wait := firstRetry
	for attempt := 2; attempt < 8; attempt++ {
		s.gate.takenUp(theGang)
		s.gate.placed(theGang)
		s.admitted() // the binding failed, and the engine puts the pod back
		s.after(wait - time.Millisecond)
		s.wantActivations(attempt - 1)
		s.after(time.Millisecond)
		s.wantActivations(attempt)
		wait = min(lastRetry, 2*wait)
	}
}

func TestGateIsNotLateForAPodThatComesAfterItsGroup(t *testing.T) {
	s := newGateScene(t, 1, 1)
	s.gate.wake(theGang) // the group's event, long before the engine asks about a pod
	s.after(time.Hour)
	s.admitted()
	s.after(settle)
	s.wantActivations(1)
}

func TestGateSurvivesAGroupThatGoesWhileItLooks(t *testing.T) {
	s := newGateScene(t, 1, 1)
	s.arrive()
	s.clock.Step(settle)
	if !s.gate.isDue(theGang) {
		t.Fatal("want a gang that is due")
	}
	group := s.handle.group
	s.handle.group, s.handle.pods = nil, nil
	s.gate.forget(group)
	if pod := s.gate.admit(theGang, found{group: group}); pod != nil {
		t.Errorf("admitted %s of a gang that is gone", pod.Name)
	}
	s.gate.wakeKnown(theGang, false)
	if len(s.gate.gangs) != 0 {
		t.Error("a gang that is gone is remembered again")
	}
}

func TestGateDoesNotCountPodsThatAreBeingDeleted(t *testing.T) {
	s := newGateScene(t, 2, 2)
	s.handle.pods["p1"].DeletionTimestamp = &metav1.Time{Time: epochZero}
	s.arrive()
	s.after(settle)
	s.wantActivations(0)
}

func TestGateTellsAGangThatWaitsForSchedulingGates(t *testing.T) {
	for name, tc := range map[string]struct {
		pods  int // that the engine knows
		words string
	}{
		"of some pods": {1, "GangPlaced=False: 1 pods can start, and the gang's minimum is 2: 2 have scheduling gates"},
		"of all":       {0, "GangPlaced=False: 0 pods can start, and the gang's minimum is 2: 2 have scheduling gates"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newGateScene(t, 2, tc.pods)
			s.handle.group.Annotations = map[string]string{tutti.HeldPodsAnnotation: "2"}
			s.gate.wake(theGang)
			s.after(settle)
			s.after(firstTell)
			s.wantActivations(0)
			s.wantVerdict(tc.words)
			s.handle.addPods(2 - tc.pods)
			s.handle.group.Annotations = nil
			s.arrive()
			s.after(settle)
			s.wantActivations(1)
		})
	}
}

func TestGateTellsAGangThatHasItsLoweredMinimum(t *testing.T) {
	s := newGateScene(t, 3, 0)
	s.handle.scheduled = []*v1.Pod{podNamed("p0"), podNamed("p1")}
	s.gate.wake(theGang)
	s.after(settle)
	s.after(firstTell)
	s.wantVerdict("GangPlaced=False: waiting for pods: 2 exist, and the gang's minimum is 3")
	s.handle.group.Spec.SchedulingPolicy.Gang.MinCount = 2
	for range 2 { // and says it once
		s.gate.wake(theGang)
		s.after(settle)
	}
	s.wantVerdict("GangPlaced=True: placed 2 pods")
	s.wantActivations(0)
}

func TestGateFindsAGangWholeWhenTheAnswerToABindingWasLost(t *testing.T) {
	s := newGateScene(t, 1, 0)
	s.handle.scheduled = []*v1.Pod{podNamed("p0")}
	s.arrive()
	s.gate.takenUp(theGang)
	s.gate.placed(theGang)
	s.gate.report.refused(s.handle.group, "pod p0 could not be bound and is tried again; its events say why")
	s.gate.failed(theGang)
	s.after(firstRetry)
	s.wantVerdict("GangPlaced=True: placed 1 pod")
	s.wantActivations(0)
}

// TestGateKeepsAGangOutThatIsBeingEvicted, until it has gone.
func TestGateKeepsAGangOutThatIsBeingEvicted(t *testing.T) {
	s := newGateScene(t, 2, 2)
	goes := true
	s.gate.goes = func(types.NamespacedName) bool { return goes }
	s.arrive()
	s.after(settle)
	s.after(remainsCheck)
	s.wantActivations(0)
	goes = false
	s.after(remainsCheck)
	s.wantActivations(1)
}

// TestGateKnowsAGangThatHasLostMembers since it began, in whichever second.
func TestGateKnowsAGangThatHasLostMembers(t *testing.T) {
	bound, evicted := boundPods(1)[0], boundPods(1)[0]
	evicted.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler}}
	for name, tc := range map[string]struct {
		gone *v1.Pod
		want bool
	}{"a member": {bound, true}, "one that was evicted": {evicted, false}, "one that had no node": {podNamed("waits"), false}} {
		t.Run(name, func(t *testing.T) {
			s := newGateScene(t, 2, 2)
			s.arrive()
			s.gate.podGone(tc.gone)
			if got := s.gate.lost(theGang); got != tc.want {
				t.Errorf("lost: %t, want %t", got, tc.want)
			}
			s.gate.begins(theGang)
			if s.gate.lost(theGang) {
				t.Error("lost, though it begins anew")
			}
		})
	}
}
