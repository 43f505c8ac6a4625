// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// manyShapes draws a gang whose exact packing may take long: few pods of each of
// many shapes, kinds, links and slices, on hosts of which no two are alike.
func manyShapes(rng *rand.Rand) Problem {
	hosts := 10 + rng.IntN(60)
	p := benchProblem(hosts)
	for h := range p.Free {
		p.Free[h] = []int64{int64(rng.IntN(97)) * 1000, int64(rng.IntN(9)), 20}
	}
	shapes := 2 + rng.IntN(14)
	for i := range shapes {
		pods := 1 + rng.IntN(30/shapes+1)
		p.Roles = append(p.Roles, Role{
			Name: string(rune('a' + i)), Pods: pods, Minimum: pods, Uniform: rng.IntN(3) == 0,
			Request: []int64{int64(8+rng.IntN(60)) * 1000, int64(rng.IntN(5)), 1},
		})
	}
	if rng.IntN(2) == 0 {
		for range p.Free {
			p.Kinds = append(p.Kinds, []string{"old", "new"}[rng.IntN(2)])
		}
	}
	if rng.IntN(2) == 0 {
		p.GPUs = randomGPUs(rng.IntN, p.Free, 1)
		for r := range p.Roles {
			p.Roles[r].GPU, p.Roles[r].Link = 1, 3
		}
	}
	p.Constraint.Required = rng.IntN(3)
	if rng.IntN(3) == 0 {
		p.Constraint.SliceSize, p.Constraint.SliceLevel = 2, 2
	}
	return p
}

// TestStepsOfAQuestion plans with few steps and with more: no plan spends more than
// it is given, however many choices of kinds there are, and more steps turn neither
// a yes into a no nor a no that stands into a yes.
func TestStepsOfAQuestion(t *testing.T) {
	n := 150
	if testing.Short() {
		n = 30
	}
	yes, no, late, bounded := 0, 0, 0, 0
	for seed := range n {
		p := manyShapes(rand.New(rand.NewPCG(uint64(seed), 99)))
		c := newCapacity(p.Tree, p.Resources, p.Free)
		c.setHosts(p)
		last, turned := planWithMoreAndMore(t, seed, c, p)
		late += turned
		switch {
		case last.Hosts != nil:
			yes++
		case last.Bounded:
			bounded++
		default:
			no++
		}
	}
	t.Logf("%d fit (%d of them only with more steps), %d do not, %d are undecided", yes, late, no, bounded)
	if yes < n/10 || no < n/10 || bounded < n/10 || late == 0 {
		t.Error("the problems are too one-sided to prove anything")
	}
}

// planWithMoreAndMore returns the decision with the most steps, and how often more
// of them turned a no into a yes.
func planWithMoreAndMore(t *testing.T, seed int, c *Planner, p Problem) (before Decision, turned int) {
	t.Helper()
	for i, given := range []int{0, 1 << 8, 1 << 12, 1 << 16, 1 << 20} {
		steps := given
		d := c.plan(p, told, &steps)
		if steps < 0 || steps > given {
			t.Errorf("seed %d: %d steps left of %d", seed, steps, given)
		}
		if i > 0 && before.Hosts != nil && d.Hosts == nil {
			t.Errorf("seed %d: it fits, but not with %d steps", seed, given)
		}
		if i > 0 && before.Hosts == nil && d.Hosts != nil {
			turned++
			if !before.Bounded {
				t.Errorf("seed %d: it does not fit, but with %d steps it does", seed, given)
			}
		}
		before = d
	}
	return before, turned
}

// TestStepsOfASearchForVictims: all of its plans share them, and what is not proven
// for want of steps is not called least.
func TestStepsOfASearchForVictims(t *testing.T) {
	n := 100
	if testing.Short() {
		n = 20
	}
	steps := []int{0, 1 << 8, 1 << 14}
	found, short := 0, 0
	for seed := range n {
		p, victims := manyShapesAndVictims(seed)
		c := NewPlanner(p.Tree, p.Resources, cloned(p.Free))
		c.setHosts(p)
		s := newVictimSearch(c, p, victims)
		if Plan(p).Hosts != nil {
			continue
		}
		s.imagine()
		if s.become(s.byCost); !s.enough(maxSteps) {
			continue
		}
		s.steps, s.bounded = steps[seed%len(steps)], false
		s.witness = s.last
		least := s.find() && !s.bounded
		placed := s.placeWithout()
		if s.steps < 0 {
			t.Errorf("seed %d: %d steps are left", seed, s.steps)
		}
		if s.bounded {
			short++
		}
		found++
		checkVictimsFound(t, seed, s, placed, least, p, victims)
	}
	t.Logf("%d searches, %d of them short of steps", found, short)
	if found < n/10 || short == 0 {
		t.Error("the searches are too one-sided to prove anything")
	}
}

func manyShapesAndVictims(seed int) (Problem, []Victim) {
	rng := rand.New(rand.NewPCG(uint64(seed), 101))
	p := manyShapes(rng)
	p.GPUs = make([]HostGPUs, len(p.Free))
	for r := range p.Roles {
		p.Roles[r].Link = 0
	}
	return p, drawVictims(rng, &p)
}

// checkVictimsFound: the placement stands on what they leave and needs each of them,
// and they are no better than the search with all steps proves to be possible.
func checkVictimsFound(t *testing.T, seed int, s *victimSearch, placed Decision, least bool, p Problem, victims []Victim) {
	t.Helper()
	checkPlaced(t, evicted(p, victims, s.best), placed)
	for i, v := range s.best {
		others := evicted(p, victims, slices.Delete(slices.Clone(s.best), i, i+1))
		for r, role := range p.Roles {
			for _, h := range placed.Hosts[r][:role.Minimum] {
				twinTake(role, others.Free[h], 1)
			}
		}
		if !slices.ContainsFunc(victims[v].Frees, func(f Change) bool {
			return slices.ContainsFunc(others.Free[f.Host], func(n int64) bool { return n < 0 })
		}) {
			t.Errorf("seed %d: the placement does not need victim %d of %v", seed, v, s.best)
		}
	}
	_, e := PlanWithVictims(p, victims)
	if cost := s.costOf(s.best); least && e.Least && cost != e.Cost || e.Least && cost.compare(e.Cost) < 0 {
		t.Errorf("seed %d: %+v with few steps (least: %v), %+v with all", seed, cost, least, e)
	}
}
