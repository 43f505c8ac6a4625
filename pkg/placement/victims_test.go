// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestVictimsAgreeWithTheTwin compares with the twin's least costly set.
func TestVictimsAgreeWithTheTwin(t *testing.T) {
	n := 20_000
	if testing.Short() {
		n = 1_000
	}
	none, some, several := 0, 0, 0
	for seed := range n {
		rng := rand.New(rand.NewPCG(uint64(seed), 37))
		p, victims := randomVictims(rng.IntN)
		d, e := PlanWithVictims(p, victims)
		least, needed, possible := twinVictims(p, victims)
		switch {
		case !possible:
			none++
		case needed:
			some++
			several += min(len(e.Victims)-1, 1)
		}
		agree := e.Least && possible == (d.Hosts != nil) && needed == (len(e.Victims) > 0)
		if !agree || needed && e.Cost != least {
			t.Errorf("placed: %v with %+v; the twin says possible: %v, needed: %v, %+v", d.Hosts != nil, e, possible, needed, least)
		}
		checkEvicted(t, p, victims, d, e)
		if t.Failed() {
			t.Fatalf("seed %d: %+v\n%s", seed, victims, draw(p))
		}
	}
	t.Logf("%d problems: %d need victims (%d of them several), %d are beyond help", n, some, several, none)
	if some < n/15 || several < n/50 || none < n/10 {
		t.Error("the problems are too one-sided to prove anything")
	}
}

// checkEvicted checks the placement on what the victims leave.
func checkEvicted(t *testing.T, p Problem, victims []Victim, d Decision, e Eviction) {
	t.Helper()
	if d.Hosts != nil {
		p.Free = twinWithout(p, victims, e.Victims)
		checkPlaced(t, p, d)
	}
}

// randomVictims takes most of a random cluster away and gives it to victims.
func randomVictims(below func(int) int) (Problem, []Victim) {
	p := randomProblem(below)
	var victims []Victim
	for range 1 + below(5) {
		v := Victim{Cost: Cost{Violations: below(4) / 3, Priority: below(3), Gangs: below(2), Pods: 1 + below(3), Started: int64(below(3))}}
		for h := range p.Free {
			if below(3) > 0 {
				continue
			}
			freed := make([]int64, len(p.Resources))
			for d := range freed {
				freed[d] = int64(below(4))
				p.Free[h][d] -= freed[d]
			}
			v.Frees = append(v.Frees, Change{Host: h, Free: freed})
		}
		victims = append(victims, v)
	}
	return p, victims
}

func twinWithout(p Problem, victims []Victim, gone []int) [][]int64 {
	free := cloned(p.Free)
	for _, v := range gone {
		for _, f := range victims[v].Frees {
			for d, n := range f.Free {
				free[f.Host][d] += n
			}
		}
	}
	return free
}

// twinVictims tries every set of victims.
func twinVictims(p Problem, victims []Victim) (least Cost, needed, possible bool) {
	minimum, full := make([]int, len(p.Roles)), make([]int, len(p.Roles))
	for r, role := range p.Roles {
		minimum[r], full[r] = role.Minimum, role.Pods
	}
	whole := p
	for set := range 1 << len(victims) {
		var gone []int
		cost := Cost{Started: maxStarted}
		for v := range victims {
			if set&(1<<v) != 0 {
				gone = append(gone, v)
				c := victims[v].Cost
				cost = Cost{cost.Violations + c.Violations, max(cost.Priority, c.Priority), cost.Gangs + c.Gangs, cost.Pods + c.Pods, min(cost.Started, c.Started)}
			}
		}
		p.Free = twinWithout(whole, victims, gone)
		_, fits := twinLevel(p, minimum, len(p.Tree.Levels())-1)
		if !fits && slices.ContainsFunc(full, positive) {
			continue
		}
		if len(gone) == 0 {
			return Cost{}, false, true
		}
		if !possible || cost.compare(least) < 0 {
			least, needed, possible = cost, true, true
		}
	}
	return least, needed, possible
}

// TestVictimsLeaveThePlannerAsItWas plans with a planner that is kept.
func TestVictimsLeaveThePlannerAsItWas(t *testing.T) {
	for seed := range 300 {
		rng := rand.New(rand.NewPCG(uint64(seed), 41))
		p, victims := randomVictims(rng.IntN)
		hy := newHistory(p, rng.IntN)
		for h, kind := range p.Kinds {
			hy.planner.SetKind(h, kind)
		}
		before := hy.planner.Plan(p)
		wantDecision, want := PlanWithVictims(p, victims)
		decision, got := hy.planner.PlanWithVictims(p, victims)
		if diff := cmp.Diff(want, got) + cmp.Diff(wantDecision, decision); diff != "" {
			t.Errorf("seed %d: from scratch and kept:\n%s", seed, diff)
		}
		if diff := cmp.Diff(before, hy.planner.Plan(p)); diff != "" {
			t.Errorf("seed %d: before and after:\n%s", seed, diff)
		}
	}
}
