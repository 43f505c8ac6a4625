// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/tutti-project/tutti/pkg/apis/tutti"
)

// enqueue is a gang of this name that comes and is let in at once.
func (s *gateScene) enqueue(name string, priority int32) types.NamespacedName {
	key := types.NamespacedName{Namespace: "ns", Name: name}
	pod := podNamed(name)
	pod.Spec.Priority = new(priority)
	s.gate.admits(key, pod)
	s.clock.Step(settle)
	s.gate.look(klog.Background(), key)
	return key
}

// refused is a gang that came and was refused for want of these.
func (s *gateScene) refusedFor(name string, priority int32, n needs) types.NamespacedName {
	key := s.enqueue(name, priority)
	s.gate.takenUp(key)
	s.gate.refuse(key, n)
	return key
}

// turns lets time pass until gangs that were helped may be tried, and the line
// move.
func (s *gateScene) turns() {
	s.clock.Step(lastTurn)
	s.gate.turns(klog.Background())
}

// wantActivated is who was let in since it was last asked, in order.
func (s *gateScene) wantActivated(want ...string) {
	s.Helper()
	if !slices.Equal(s.handle.activated, want) {
		s.Fatalf("let in %v, want %v", s.handle.activated, want)
	}
	s.handle.activated = nil
}

func newLineScene(t *testing.T) *gateScene { return newGateScene(t, 1, 1) }

func TestRefusedGangsAreTriedOneByOneByPriorityAndWait(t *testing.T) {
	s := newLineScene(t)
	keys := map[string]types.NamespacedName{}
	for _, name := range []string{"first", "second"} {
		keys[name] = s.refusedFor(name, 0, anyRoom)
		s.clock.Step(time.Second)
	}
	keys["urgent"] = s.refusedFor("urgent", 7, anyRoom)
	partly := anyRoom
	partly.partly = true
	keys["torn"] = s.refusedFor("torn", 0, partly)
	s.handle.activated = nil
	s.gate.changed()
	s.turns()
	for _, name := range []string{"urgent", "torn", "first", "second"} {
		s.wantActivated(name)
		s.gate.turns(klog.Background())
		s.wantActivated() // the one before is not taken up yet
		s.gate.takenUp(keys[name])
		s.gate.refuse(keys[name], anyRoom)
		s.gate.turns(klog.Background())
	}
	s.wantActivated()
}

func TestAGangThatComesNewWaitsForOneRefusedAtTheMost(t *testing.T) {
	s := newLineScene(t)
	old := []types.NamespacedName{s.refusedFor("old-1", 0, anyRoom), s.refusedFor("old-2", 0, anyRoom)}
	s.handle.activated = nil
	s.gate.changed()
	s.turns()
	s.wantActivated("old-1")
	fresh := []types.NamespacedName{s.enqueue("new-1", 0), s.enqueue("new-2", 0)}
	s.wantActivated("new-1", "new-2")
	s.gate.takenUp(old[0])
	s.gate.refuse(old[0], anyRoom)
	s.gate.turns(klog.Background())
	s.wantActivated() // a new one goes first
	s.gate.takenUp(fresh[0])
	s.gate.turns(klog.Background())
	s.wantActivated("old-2") // then one that was refused
	s.gate.takenUp(old[1])
	s.gate.takenUp(fresh[1])
}

func TestALostActivationDoesNotHoldTheLine(t *testing.T) {
	s := newLineScene(t)
	s.refusedFor("lost", 0, anyRoom)
	s.refusedFor("next", 0, anyRoom)
	s.handle.activated = nil
	s.gate.changed()
	s.turns()
	s.wantActivated("lost")
	s.clock.Step(patience)
	s.gate.turns(klog.Background())
	s.wantActivated("next")
}

// TestAGangThatNeverReachesThePlannerDoesNotHoldTheLine: it is let in again and
// again, but after a few times each turn follows the one before at once.
func TestAGangThatNeverReachesThePlannerDoesNotHoldTheLine(t *testing.T) {
	s := newLineScene(t)
	var names []string
	for i := range 5 {
		names = append(names, fmt.Sprint("refused-", i))
		s.refusedFor(names[i], 0, anyRoom)
	}
	stuck := s.enqueue("stuck", 0)
	for range lostLooks {
		s.clock.Step(lastRecheck)
		s.gate.look(klog.Background(), stuck)
	}
	s.handle.activated = nil
	s.gate.changed()
	s.turns()
	for _, name := range names {
		s.wantActivated(name)
		key := types.NamespacedName{Namespace: "ns", Name: name}
		s.gate.takenUp(key)
		s.gate.refuse(key, anyRoom)
		s.gate.turns(klog.Background())
	}
	s.wantActivated()
}

// TestAGangThatReachesThePlannerLateWentBeforeTheNextTurn, as one that does at once.
func TestAGangThatReachesThePlannerLateWentBeforeTheNextTurn(t *testing.T) {
	s := newLineScene(t)
	for _, name := range []string{"old-1", "old-2"} {
		s.refusedFor(name, 0, anyRoom)
	}
	late := s.enqueue("late", 0)
	for range lostLooks {
		s.clock.Step(lastRecheck)
		s.gate.look(klog.Background(), late)
	}
	s.handle.activated = nil
	s.gate.changed()
	s.turns()
	s.wantActivated("old-1")
	s.enqueue("new", 0)
	s.wantActivated("new")
	s.gate.takenUp(types.NamespacedName{Namespace: "ns", Name: "old-1"})
	s.gate.turns(klog.Background())
	s.wantActivated() // the new one goes first
	s.gate.takenUp(late)
	s.gate.turns(klog.Background())
	s.wantActivated("old-2") // but the late one went
}

func TestGangsThatAreAlikeAreRefusedTogether(t *testing.T) {
	s := newLineScene(t)
	alike := anyRoom
	alike.alike = "8 pods of 8 GPUs"
	other := anyRoom
	other.alike = "another kind"
	one := s.refusedFor("one", 0, alike)
	s.refusedFor("two", 0, alike)
	third := s.refusedFor("three", 0, other)
	s.handle.activated = nil
	s.gate.changed()
	s.turns()
	s.wantActivated("one")
	s.gate.takenUp(one)
	s.gate.refuse(one, alike)
	s.gate.turns(klog.Background())
	s.wantActivated("three")
	s.gate.takenUp(third)
	s.gate.refuse(third, other)
	s.turns()
	s.wantActivated()
	t.Log("the next change lets one of each kind be asked again")
	s.gate.changed()
	s.turns()
	s.wantActivated("one")
	s.gate.takenUp(one)
	s.gate.placed(one)
	s.gate.turns(klog.Background())
	s.wantActivated("three")
	s.gate.takenUp(third)
	s.gate.turns(klog.Background())
	s.wantActivated("two") // the first was not refused, so the one alike is asked
}

// TestGangsThatAreAlikeAreDoubtedTogether: what one was told just after a change is
// not the last word for the others either, and two attempts do for all.
func TestGangsThatAreAlikeAreDoubtedTogether(t *testing.T) {
	for name, fits := range map[string]bool{"the room comes": true, "no room comes": false} {
		t.Run(name, func(t *testing.T) {
			s := newLineScene(t)
			alike := anyRoom
			alike.alike = "8 pods of 8 GPUs"
			var keys []types.NamespacedName
			for i := range 5 {
				keys = append(keys, s.refusedFor(fmt.Sprint("g", i), 0, alike))
			}
			s.handle.activated = nil
			pass := func() { // those that are due go to the line, and it moves
				for _, key := range keys {
					s.gate.look(klog.Background(), key)
				}
				s.gate.turns(klog.Background())
			}
			s.gate.changed()
			s.clock.Step(firstRetry)
			pass()
			s.wantActivated("g0")
			s.gate.takenUp(keys[0])
			s.gate.refuse(keys[0], alike)
			pass()
			s.wantActivated()
			s.clock.Step(engineLag)
			pass()
			s.wantActivated("g0")
			s.gate.takenUp(keys[0])
			if fits {
				s.gate.placed(keys[0])
				pass()
				s.wantActivated("g1")
				return
			}
			s.gate.refuse(keys[0], alike)
			for range int(lostEvent/engineLag) - 1 {
				pass()
				s.wantActivated()
				s.clock.Step(engineLag)
			}
		})
	}
}

func TestAGangIsNotTakenForItself(t *testing.T) {
	alike := anyRoom
	alike.alike = "8 pods of 8 GPUs"
	for name, wake := range map[string]func(*gateScene, types.NamespacedName){
		"its group was edited": func(s *gateScene, key types.NamespacedName) { s.gate.wake(key) },
		"an event was lost": func(s *gateScene, key types.NamespacedName) {
			s.clock.Step(lostEvent)
			s.gate.look(klog.Background(), key)
		},
		"its group was edited after another one was refused": func(s *gateScene, key types.NamespacedName) {
			s.gate.changed()
			s.refusedFor("other", 0, alike)
			s.handle.activated = nil
			s.gate.wake(key)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newLineScene(t)
			key := s.refusedFor("g", 0, alike)
			s.handle.activated = nil
			wake(s, key)
			s.turns()
			s.wantActivated("g")
		})
	}
}

func TestOnlyWhatCanHelpWakesAGang(t *testing.T) {
	claim := types.NamespacedName{Namespace: "ns", Name: "data"}
	withClaim := needs{help: [helps]bool{helpRoom: true, helpVolumes: true}, claims: map[types.NamespacedName]bool{claim: true}}
	nearOthers := needs{help: [helps]bool{helpRoom: true, helpNeighbours: true}}
	withDevices := needs{help: [helps]bool{helpRoom: true, helpDevices: true}}
	for name, tc := range map[string]struct {
		event func(*gate)
		wakes []string
	}{
		"room":            {func(g *gate) { g.changed() }, []string{"claim", "devices", "near", "room"}},
		"its claim":       {func(g *gate) { g.claimChanged(claim) }, []string{"claim"}},
		"another claim":   {func(g *gate) { g.claimChanged(types.NamespacedName{Namespace: "ns", Name: "other"}) }, nil},
		"a storage class": {func(g *gate) { g.helped(helpVolumes, nil) }, []string{"claim"}},
		"devices":         {func(g *gate) { g.helped(helpDevices, nil) }, []string{"devices"}},
		"a pod was bound": {func(g *gate) { g.podAdded(&v1.Pod{Spec: v1.PodSpec{NodeName: "n"}}) }, []string{"near"}},
		"a pod was relabelled": {func(g *gate) {
			old := &v1.Pod{Spec: v1.PodSpec{NodeName: "n"}}
			labelled := old.DeepCopy()
			labelled.Labels = map[string]string{"a": "b"}
			g.podUpdated(old, labelled)
		}, []string{"near"}},
		"a pod's heartbeat": {func(g *gate) {
			old := &v1.Pod{Spec: v1.PodSpec{NodeName: "n"}}
			ready := old.DeepCopy()
			ready.Status.Phase = v1.PodRunning
			g.podUpdated(old, ready)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newLineScene(t)
			for kind, n := range map[string]needs{"room": anyRoom, "claim": withClaim, "near": nearOthers, "devices": withDevices} {
				s.refusedFor(kind, 0, n)
			}
			tc.event(s.gate)
			var woken []string
			for key := range s.gate.line.waiting {
				woken = append(woken, key.Name)
			}
			slices.Sort(woken)
			if !slices.Equal(woken, tc.wakes) {
				t.Errorf("woke %v, want %v", woken, tc.wakes)
			}
		})
	}
}

func TestHelpThatComesWhileThePlannerLooksIsNotLost(t *testing.T) {
	s := newLineScene(t)
	withClaim := needs{help: [helps]bool{helpRoom: true, helpVolumes: true}}
	key := s.enqueue("late", 0)
	s.gate.takenUp(key)
	s.gate.helped(helpVolumes, nil)
	s.gate.helped(helpNeighbours, nil) // which it does not need
	s.gate.refuse(key, withClaim)
	if s.gate.line.waiting[key] == nil {
		t.Error("the gang is not tried again")
	}
	other := s.enqueue("other", 0)
	s.gate.takenUp(other)
	s.gate.helped(helpNeighbours, nil)
	s.gate.refuse(other, withClaim)
	if s.gate.line.waiting[other] != nil {
		t.Error("the gang is tried again though nothing helps it")
	}
}

func TestManyRefusedGangsAreLookedThroughSlowly(t *testing.T) {
	s := newLineScene(t)
	for range 100 {
		s.refusedFor("g"+strings.Repeat("x", len(s.gate.gangs)), 0, anyRoom)
	}
	last := s.refusedFor("last", 0, anyRoom)
	if wait := s.gate.gangs[last].due.Sub(s.clock.Now()); wait <= lostEvent {
		t.Errorf("of 101 refused gangs each is tried after %s without any reason", wait)
	}
}

func TestGangThatWaitedTooLongGoesBehindOthersOfItsPriority(t *testing.T) {
	s := newLineScene(t)
	s.handle.group.Annotations = map[string]string{tutti.ScheduleTimeoutAnnotation: "60"}
	for _, pod := range s.handle.pods {
		pod.CreationTimestamp.Time = s.clock.Now()
	}
	late := s.enqueue("late", 0)
	s.gate.takenUp(late)
	if said := s.gate.refuse(late, anyRoom); said != "" {
		t.Errorf("in time, and yet: %s", said)
	}
	s.handle.group.Annotations = nil
	s.clock.Step(30 * time.Second)
	s.refusedFor("other", 0, anyRoom)
	s.refusedFor("lower", -1, anyRoom)
	s.handle.activated = nil
	s.clock.Step(40 * time.Second)
	s.gate.changed()
	s.turns()
	s.wantActivated("other") // which came later
	s.handle.group.Annotations = map[string]string{tutti.ScheduleTimeoutAnnotation: "60"}
	s.gate.takenUp(types.NamespacedName{Namespace: "ns", Name: "other"})
	s.gate.turns(klog.Background())
	s.wantActivated("late") // but before those of lower priority
	s.gate.takenUp(late)
	if said := s.gate.refuse(late, anyRoom); !strings.Contains(said, "scheduleTimeoutSeconds of 60") {
		t.Errorf("the verdict does not say that it is late: %q", said)
	}
}

// TestGangIsToldWhenItsTimeIsOver: without any event the gang is looked at when
// its time is over, so that its verdict says so.
func TestGangIsToldWhenItsTimeIsOver(t *testing.T) {
	s := newLineScene(t)
	s.handle.group.Annotations = map[string]string{tutti.ScheduleTimeoutAnnotation: "7"}
	s.handle.pods["p0"].CreationTimestamp.Time = s.clock.Now()
	s.arrive()
	s.after(settle)
	s.gate.takenUp(theGang)
	s.gate.refuse(theGang, anyRoom)
	s.after(6 * time.Second)
	s.wantActivations(1)
	s.after(time.Second)
	s.wantActivations(2)
}

func TestPodsWithoutTheirGroupAreTold(t *testing.T) {
	s := newGateScene(t, 2, 2)
	group := s.handle.group
	s.handle.group = nil
	s.gate.wake(theGang) // the engine asks nothing about such pods
	s.after(settle)
	s.after(firstTell)
	if len(s.handle.told) != 2 || !strings.Contains(s.handle.told[0], "Incomplete: the pod belongs to gang g, but there is no PodGroup of that name in namespace ns") {
		t.Errorf("told %q", s.handle.told)
	}
	if len(s.handle.events) != 2 {
		t.Errorf("events %q, want one for each pod", s.handle.events)
	}
	t.Log("told again of the same lack, but without events")
	s.gate.wake(theGang)
	s.after(settle)
	if len(s.handle.events) != 2 {
		t.Errorf("events %q", s.handle.events)
	}
	s.handle.group = group
	s.gate.wake(theGang)
	s.arrive()
	s.after(settle)
	s.wantActivations(1)
}

func TestPodsWithoutTheirGroupAreLeftInPeaceWhileMoreCome(t *testing.T) {
	s := newGateScene(t, 20, 1)
	s.handle.group = nil
	for range 10 {
		s.handle.addPods(1)
		s.gate.wake(theGang)
		s.after(settle)
		s.after(firstTell / 2)
	}
	if len(s.handle.told) != 0 {
		t.Errorf("told %q while pods were coming", s.handle.told)
	}
	s.after(firstTell)
	if len(s.handle.told) != len(s.handle.pods) {
		t.Errorf("told %d pods, want all %d", len(s.handle.told), len(s.handle.pods))
	}
}

func TestSlowPodsAreNotAnEventEach(t *testing.T) {
	s := newGateScene(t, 50, 1)
	for range 40 {
		s.arrive()
		s.after(settle)
		s.after(30 * time.Second)
		s.handle.addPods(1)
	}
	if events := len(s.handle.events); events > 3 {
		t.Errorf("%d events of one gang whose pods come slowly: %q", events, s.handle.events)
	}
	if len(s.verdicts) < 2 {
		t.Errorf("the verdict does not follow: %q", s.verdicts)
	}
}

func TestLabelEditedByHandIsAnswered(t *testing.T) {
	s := newGateScene(t, 1, 1)
	was := podNamed("p0")
	was.Labels = map[string]string{"scheduling.x-k8s.io/pod-group": "g"}
	is := was.DeepCopy()
	is.Labels["scheduling.x-k8s.io/pod-group"] = "h"
	s.gate.podUpdated(was, is)
	s.gate.podUpdated(is, is)
	if len(s.handle.events) != 1 || !strings.Contains(s.handle.events[0], `changed from "g" to "h"`) || !strings.Contains(s.handle.events[0], "in gang g") {
		t.Errorf("events %q", s.handle.events)
	}
}
