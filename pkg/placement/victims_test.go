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
	for r := range p.Roles {
		p.Roles[r].Link = 0 // of gangs that demand links nothing is claimed to be least
	}
	if below(4) == 0 {
		p.Roles = p.Roles[:1]
		p.Roles[0].Pods, p.Roles[0].Minimum = 1, 1
	}
	var victims []Victim
	budgets := []*Budget{{Allowed: below(3)}, {Allowed: below(2)}}
	for range 1 + below(5) {
		v := Victim{Cost: Cost{Violations: below(4) / 3, Priority: below(3), Gangs: below(2), Lost: int64(below(2)), Pods: 1 + below(3), Started: int64(below(3))}}
		if below(3) == 0 {
			v.Draws = append(v.Draws, Draw{Budget: budgets[below(2)], Pods: 1 + below(v.Cost.Pods)})
		}
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
	if last := len(victims) - 1; last > 1 && below(3) == 0 {
		victims[last] = whole(victims[last], victims[:2])
	}
	return p, victims
}

// whole is a victim that the parts, the first of the list, go with.
func whole(v Victim, parts []Victim) Victim {
	for i, part := range parts {
		v.Parts = append(v.Parts, i)
		v.Cost = Cost{
			Violations: v.Cost.Violations + part.Cost.Violations, Priority: max(v.Cost.Priority, part.Cost.Priority),
			Gangs: v.Cost.Gangs + part.Cost.Gangs, Lost: v.Cost.Lost + part.Cost.Lost, Pods: v.Cost.Pods + part.Cost.Pods,
			Started: min(v.Cost.Started, part.Cost.Started),
		}
		v.Draws = append(v.Draws, part.Draws...)
		for _, f := range part.Frees {
			at := slices.IndexFunc(v.Frees, func(c Change) bool { return c.Host == f.Host })
			if at < 0 {
				v.Frees = append(v.Frees, Change{Host: f.Host, Free: slices.Clone(f.Free)})
				continue
			}
			for d, n := range f.Free {
				v.Frees[at].Free[d] += n
			}
		}
	}
	return v
}

func twinWithout(p Problem, victims []Victim, gone []int) [][]int64 {
	free := cloned(p.Free)
	for _, v := range gone {
		if slices.ContainsFunc(gone, func(whole int) bool { return slices.Contains(victims[whole].Parts, v) }) {
			continue
		}
		for _, f := range victims[v].Frees {
			for d, n := range f.Free {
				free[f.Host][d] += n
			}
		}
	}
	return free
}

// twinCost adds up what the set costs: parts of a member with it, budgets once.
func twinCost(victims []Victim, gone []int) Cost {
	cost := Cost{Started: maxStarted}
	drawn := map[*Budget]int{}
	for _, v := range gone {
		part := slices.ContainsFunc(gone, func(whole int) bool { return slices.Contains(victims[whole].Parts, v) })
		if part {
			continue
		}
		c := victims[v].Cost
		cost.Violations += c.Violations
		cost.Priority = max(cost.Priority, c.Priority)
		cost.Gangs += c.Gangs
		cost.Lost += c.Lost
		cost.Pods += c.Pods
		cost.Started = min(cost.Started, c.Started)
		for _, draw := range victims[v].Draws {
			before := max(0, drawn[draw.Budget]-draw.Budget.Allowed)
			drawn[draw.Budget] += draw.Pods
			cost.Violations += max(0, drawn[draw.Budget]-draw.Budget.Allowed) - before
		}
	}
	return cost
}

// twinVictims tries every set of victims.
func twinVictims(p Problem, victims []Victim) (least Cost, needed, possible bool) {
	minimum := make([]int, len(p.Roles))
	for r, role := range p.Roles {
		minimum[r] = role.Minimum
	}
	whole := p
	for set := range 1 << len(victims) {
		var gone []int
		for v := range victims {
			if set&(1<<v) != 0 {
				gone = append(gone, v)
			}
		}
		p.Free = twinWithout(whole, victims, gone)
		_, fits := twinLevel(p, minimum, len(p.Tree.Levels())-1)
		if !fits && slices.ContainsFunc(minimum, positive) {
			continue
		}
		if len(gone) == 0 {
			return Cost{}, false, true
		}
		if cost := twinCost(victims, gone); !possible || cost.compare(least) < 0 {
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
