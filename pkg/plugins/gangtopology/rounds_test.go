// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tutti-project/tutti/pkg/clusterview"
)

// plan asks for a plan of the gang's other pods, and tells whether it waits.
func (c *commit) plan() (waits bool) {
	state := framework.NewCycleState()
	info := &framework.PodGroupInfo{Namespace: theGang.Namespace, Name: theGang.Name, PodGroup: c.handle.group, UnscheduledPods: []*v1.Pod{podNamed("other")}}
	_, status := c.plugin.GeneratePlacements(c.Context(), state, info, &fwk.Placement{})
	data, err := state.Read(refusalKey)
	waits = strings.Contains(status.Message(), beingReady)
	if told := err == nil && data.(*refusal).waits; told != waits {
		c.Errorf("PodGroupPostFilter is told that it waits: %t, and the pods %t: %s", told, waits, status.Message())
	}
	return waits
}

// TestNothingIsPlannedBesideARoundThatIsNotOver: to the engine its members have nodes,
// and one more that is planned beside them would be bound alone.
func TestNothingIsPlannedBesideARoundThatIsNotOver(t *testing.T) {
	deleted := func(c *commit) { c.plugin.rounds.gone(podNamed("a")) }
	cases := map[string]struct {
		do        func(c *commit)
		waits     bool
		roomTaken bool // other gangs need not wait for it
	}{
		"nobody has come to it":             {func(*commit) {}, false, false},
		"one is reserved":                   {func(c *commit) { c.permit("a", 1) }, true, true},
		"all are":                           {func(c *commit) { c.permit("a", 1); c.permit("b", 1) }, true, true},
		"one is ready to bind":              {func(c *commit) { c.permit("a", 1); c.permit("b", 1); c.preBind("a") }, true, true},
		"all bind":                          {func(c *commit) { c.permit("a", 1); c.permit("b", 1); c.preBind("a", "b") }, false, false},
		"one was lost, and one is here yet": {func(c *commit) { c.permit("a", 1); c.permit("b", 1); c.lose("a") }, true, false},
		"all were lost":                     {func(c *commit) { c.permit("a", 1); c.permit("b", 1); c.lose("a"); c.lose("b") }, false, false},
		"the only one was lost":             {func(c *commit) { c.permit("a", 1); c.lose("a") }, false, false},
		"one more was lost than came":       {func(c *commit) { c.permit("a", 1); c.permit("b", 1); c.lose("a"); c.lose("b"); c.lose("b") }, false, false},
		"one was deleted":                   {func(c *commit) { c.permit("a", 1); c.permit("b", 1); deleted(c) }, true, false},
		"one was deleted, and all are back": {func(c *commit) { c.permit("a", 1); c.permit("b", 1); deleted(c); c.lose("a"); c.lose("b") }, false, false},
		"a stranger was deleted": {func(c *commit) {
			c.permit("a", 1)
			c.permit("b", 1)
			c.plugin.rounds.gone(podNamed("c"))
			c.preBind("a", "b")
		}, false, false},
		"the minimum runs, and one more is reserved": {func(c *commit) {
			c.round.extras = true
			c.permit("a", 1)
		}, false, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := newCommit(t, 0, 2)
			c.plugin.builder = clusterview.NewBuilder(nil)
			for _, name := range []string{"a", "b"} {
				c.states[name] = framework.NewCycleState()
				c.states[name].Write(pinKey, &pinned{round: c.round})
			}
			tc.do(c)
			if got := c.plan(); got != tc.waits {
				t.Errorf("the plan waits: %t, want %t", got, tc.waits)
			}
			if got := c.plugin.rounds.holdRoom(theGang); got != tc.roomTaken {
				t.Errorf("its room is taken: %t, want %t", got, tc.roomTaken)
			}
		})
	}
}

// TestNobodyIsMadeReadyForARoundThatIsAborted: a volume may take ten minutes.
func TestNobodyIsMadeReadyForARoundThatIsAborted(t *testing.T) {
	for name, abort := range map[string]func(c *commit){
		"one cannot be made ready": func(c *commit) { c.lose("a") },
		"one was deleted":          func(c *commit) { c.plugin.rounds.gone(podNamed("a")) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCommit(t, 0, 2)
			c.permit("a", 1)
			c.permit("b", 1)
			c.permit("extra", 1)
			c.handle.preparing = map[types.UID]*fakePreparing{"b": {}, "extra": {}, "stranger": {}}
			abort(c)
			for uid, pod := range c.handle.preparing {
				if got, want := pod.cancelled.Load(), uid != "stranger"; got != want {
					t.Errorf("%s is cancelled: %t, want %t", uid, got, want)
				}
			}
		})
	}
}

// TestGateTriesAGangAgainWhenItsRoundIsOver and does not wait for its next look.
func TestGateTriesAGangAgainWhenItsRoundIsOver(t *testing.T) {
	for name, tc := range map[string]struct {
		over   func(c *commit)
		within time.Duration
	}{
		"its members bind":   {func(c *commit) { c.preBind("a", "b") }, settle},
		"its members failed": {func(c *commit) { c.lose("a"); c.lose("b") }, firstRetry},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCommit(t, 0, 2)
			c.plugin.gate.takenUp(theGang)
			c.permit("a", 1)
			c.permit("b", 1)
			c.plugin.gate.wake(theGang) // one more has come
			c.plugin.gate.putOff(theGang)
			tc.over(c)
			if wait := c.plugin.gate.gangs[theGang].due.Sub(c.plugin.gate.clock.Now()); wait > tc.within {
				t.Errorf("it is looked at in %s, want within %s", wait, tc.within)
			}
		})
	}
}

// TestGangThatCannotBeCompletedIsLetGo, also when a pod can never be made ready; pods
// beyond the minimum are no cause.
func TestGangThatCannotBeCompletedIsLetGo(t *testing.T) {
	for name, tc := range map[string]struct {
		running       int
		extras, bound bool
		counts        bool
	}{
		"none of the gang runs":                         {0, false, false, false},
		"a part of its minimum runs":                    {1, false, false, true},
		"the minimum runs":                              {2, true, false, false},
		"one could not be bound beside others":          {0, false, true, true},
		"one more than the minimum could not be bound":  {2, true, true, false},
		"one could not be bound, and a part ran before": {1, false, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCommit(t, 0, 1)
			c.plugin.gate.takenUp(theGang)
			c.round.count.running, c.round.extras = tc.running, tc.extras
			c.permit("a", 1)
			if tc.bound {
				c.preBind("a")
			}
			c.lose("a")
			if counts := !c.plugin.gate.gangs[theGang].failures.last.IsZero(); counts != tc.counts {
				t.Errorf("it counts as a failure: %t, want %t", counts, tc.counts)
			}
			if last := c.handle.events[len(c.handle.events)-1]; strings.Contains(last, "none of the gang is bound") != (tc.running == 0 && !tc.bound) {
				t.Errorf("told: %s", last)
			}
		})
	}
}
