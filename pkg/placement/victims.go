// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"

	"github.com/tutti-project/tutti/pkg/topology"
)

// Victim is what can be evicted as one: a whole gang, or a pod that no gang needs.
type Victim struct {
	Name  string
	Cost  Cost
	Frees []Change // what its hosts get back; each host at most once
	// Parts are positions of victims that go with this one, such as the pods
	// that a gang can spare: beside it they free nothing more and cost nothing more.
	Parts []int
	// Draws are on budgets that several victims share. What all of them draw
	// beyond a budget adds to Cost.Violations.
	Draws []Draw
}

// Draw is how many pods of a victim a budget counts.
type Draw struct {
	Budget *Budget
	Pods   int
}

// Budget is how many of some pods may go together.
type Budget struct{ Allowed int }

// Cost is what an eviction costs, of one victim or of several, most important first.
type Cost struct {
	Violations int   // of disruption budgets
	Priority   int   // the highest
	Gangs      int   // 0 for a single pod
	Lost       int64 // device-hours of work
	Pods       int   // at least 1
	Started    int64 // the earliest: of work that began later less is lost
}

func (a Cost) compare(b Cost) int {
	return cmp.Or(cmp.Compare(a.Violations, b.Violations), cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Gangs, b.Gangs),
		cmp.Compare(a.Lost, b.Lost), cmp.Compare(a.Pods, b.Pods), cmp.Compare(b.Started, a.Started))
}

// and is the cost of both. It is not below that of either.
func (a Cost) and(b Cost) Cost {
	return Cost{
		Violations: a.Violations + b.Violations, Priority: max(a.Priority, b.Priority), Gangs: a.Gangs + b.Gangs,
		Lost: plus(a.Lost, b.Lost), Pods: a.Pods + b.Pods, Started: min(a.Started, b.Started),
	}
}

// Eviction is the victims that a placement needs.
type Eviction struct {
	Victims []int // positions in the list given
	Cost    Cost
	// Least: no set of victims that lets the gang start costs less. Else the
	// search stopped at its limit; but no victim of the set can be spared.
	Least bool
}

// Limits of the search for victims.
const (
	maxVictimPlans   = 1 << 11 // plans of the exact search
	maxVictimDomains = 16      // that are looked into to find where it begins
)

// PlanWithVictims is the method on a planner made for one question.
func PlanWithVictims(p Problem, victims []Victim) (Decision, Eviction) {
	c := NewPlanner(p.Tree, p.Resources, slices.Clone(p.Free))
	c.setHosts(p)
	return c.PlanWithVictims(p, victims)
}

// PlanWithVictims finds the least costly victims whose eviction lets the gang
// start with its minimum, and the placement with them. Nobody is evicted for a
// gang that fits, nor for one that would not fit even without all of them: then
// the decision is that of Plan. Pods beyond the minimum may use what is freed,
// but nothing is freed for them. Eligible is asked as if all victims were gone.
//
// More victims never make a gang fit less, and never cost less; but for gangs that
// demand links, of which nothing is claimed to be least: what another GPU that
// comes free does to those is for the device plugin to say. All that are
// needed stand in one domain of the required level. In every such domain the
// cheapest that are enough are found by halving, and spared from the dearest on
// as long as the gang fits. The cheapest of these sets bounds an exact search,
// domain by domain, which keeps or evicts victim by victim.
func (c *Planner) PlanWithVictims(p Problem, victims []Victim) (Decision, Eviction) {
	s := newVictimSearch(c, p, victims)
	decision := s.planWithout(nil, true)
	if decision.Hosts != nil || len(s.byCost) == 0 || s.planWithout(s.byCost, false).Hosts == nil {
		return decision, Eviction{Least: decision.Hosts != nil || !s.demands && !s.bounded}
	}
	least := s.find() && !s.demands && !s.bounded
	e := Eviction{Victims: s.best, Cost: s.costOf(s.best), Least: least}
	slices.Sort(e.Victims)
	decision = s.planWithout(e.Victims, true)
	e.Least = e.Least && !decision.Bounded
	return decision, e
}

// find sets best, and tells whether nothing costs less.
func (s *victimSearch) find() (least bool) {
	if s.isSingle() && !s.demands {
		return s.single()
	}
	sets := s.byDomain()
	s.lookInto(sets)
	s.plans = 0
	for _, set := range sets {
		s.search(set)
	}
	return s.plans <= maxVictimPlans
}

// victimSearch is the state of one search for victims.
type victimSearch struct {
	planner *Planner
	p       Problem
	victims []Victim
	own     []Cost // [victim] by itself
	byCost  []int  // victims, the cheapest first
	plans   int
	steps   int  // left to all plans
	bounded bool // a plan that says no might have found a way with more steps
	best    []int

	changed map[int][]int64 // the problem's own changes, by host
	demands bool            // some role demands links
	over    [][]int64       // [host] what a what-if leaves; nil where that is as it is
	covered []bool          // [victim] goes with another one
}

// maxStarted is the start of nobody.
const maxStarted = 1<<63 - 1

func newVictimSearch(c *Planner, p Problem, victims []Victim) *victimSearch {
	s := &victimSearch{planner: c, p: p, victims: victims, steps: maxVictimSteps}
	s.over, s.covered = make([][]int64, len(c.free)), make([]bool, len(victims))
	s.changed = make(map[int][]int64, len(p.Changes))
	for _, change := range p.Changes {
		s.changed[change.Host] = change.Free
	}
	s.p.Roles = slices.Clone(p.Roles)
	for r := range s.p.Roles {
		s.p.Roles[r].Eligible = remembered(p.Roles[r].Eligible)
		s.demands = s.demands || p.Roles[r].demands()
	}
	for v := range victims {
		s.own = append(s.own, s.costOf([]int{v}))
	}
	s.byCost = s.useful()
	slices.SortStableFunc(s.byCost, func(a, b int) int { return s.own[a].compare(s.own[b]) })
	s.best = s.byCost
	return s
}

// useful leaves out victims that free nothing that is short: on each of their
// hosts there is enough for the whole gang already of all that they hold there.
func (s *victimSearch) useful() []int {
	need := make([]int64, len(s.planner.resources))
	for _, role := range s.p.Roles {
		for d, n := range role.Request {
			need[d] = plus(need[d], times(max(n, 0), int64(role.Pods)))
		}
	}
	var list []int
	for v := range s.victims {
		if slices.ContainsFunc(s.victims[v].Frees, func(f Change) bool {
			free := s.free(f.Host)
			for d, n := range f.Free {
				if n > 0 && (free[d] < need[d] || s.demands) {
					return true
				}
			}
			return false
		}) {
			list = append(list, v)
		}
	}
	return list
}

// remembered asks an oracle once for each host, over many plans.
func remembered(oracle func(int) (bool, string)) func(int) (bool, string) {
	if oracle == nil {
		return nil
	}
	type answer struct {
		ok     bool
		reason string
	}
	known := make(map[int]answer)
	return func(h int) (bool, string) {
		a, ok := known[h]
		if !ok {
			a.ok, a.reason = oracle(h)
			known[h] = a
		}
		return a.ok, a.reason
	}
}

// each calls do for the victims of the set that do not go with another one.
func (s *victimSearch) each(set []int, do func(v int)) {
	for _, v := range set {
		for _, part := range s.victims[v].Parts {
			s.covered[part] = true
		}
	}
	for _, v := range set {
		if !s.covered[v] {
			do(v)
		}
	}
	for _, v := range set {
		for _, part := range s.victims[v].Parts {
			s.covered[part] = false
		}
	}
}

func (s *victimSearch) costOf(set []int) Cost {
	cost := Cost{Started: maxStarted}
	first := true
	drawn := map[*Budget]int{}
	s.each(set, func(v int) {
		if first {
			cost, first = s.victims[v].Cost, false
		} else {
			cost = cost.and(s.victims[v].Cost)
		}
		for _, draw := range s.victims[v].Draws {
			drawn[draw.Budget] += draw.Pods
		}
	})
	for budget, pods := range drawn {
		cost.Violations += max(0, pods-max(0, budget.Allowed))
	}
	return cost
}

// planWithout plans as if the victims were gone. Plans that are not to be finished
// only tell whether the gang fits, and share the steps of the search; one that is
// has all the steps of a plan.
func (s *victimSearch) planWithout(gone []int, finished bool) Decision {
	s.plans++
	p := s.p
	p.Changes = nil
	var gpus map[int]topology.Set // that come free
	take := func(change Change) {
		if h := change.Host; s.over[h] == nil {
			s.over[h] = slices.Clone(change.Free)
			change.Free = s.over[h]
			p.Changes = append(p.Changes, change)
		}
	}
	for _, change := range s.p.Changes {
		take(change)
	}
	s.each(gone, func(v int) {
		for _, f := range s.victims[v].Frees {
			take(Change{Host: f.Host, Free: s.planner.free[f.Host], GPUs: s.planner.GPUs(f.Host).Free})
			for d, n := range f.Free {
				s.over[f.Host][d] = plus(s.over[f.Host][d], n)
			}
			if of := s.planner.GPUs(f.Host); f.GPUs == 0 && !of.PlannerPicks {
				f.GPUs = of.Healthy // one of these: which is not known
			}
			if f.GPUs != 0 {
				if gpus == nil {
					gpus = make(map[int]topology.Set)
				}
				gpus[f.Host] |= f.GPUs
			}
		}
	})
	for i, change := range p.Changes {
		s.over[change.Host] = nil
		p.Changes[i].GPUs |= gpus[change.Host]
	}
	steps := maxSteps
	if finished {
		return s.planner.plan(p, true, &steps)
	}
	share := min(steps, s.steps)
	steps = share
	d := s.planner.plan(p, false, &steps)
	s.steps -= share - steps
	s.bounded = s.bounded || d.Bounded && d.Hosts == nil
	return d
}

func (s *victimSearch) enough(set []int) bool { return s.planWithout(set, false).Hosts != nil }

// lookInto finds sets that are enough among those of each domain, and keeps the
// cheapest as the best.
func (s *victimSearch) lookInto(sets [][]int) {
	looked := 0
	for _, set := range sets {
		if looked == maxVictimDomains {
			break
		}
		if !s.enough(set) {
			continue
		}
		looked++
		s.offer(s.spare(slices.Clone(set[:s.shortestPrefix(set)])))
	}
	if looked == 0 {
		s.offer(s.spare(slices.Clone(s.byCost[:s.shortestPrefix(s.byCost)])))
	}
}

// search looks for a set below the best among the victims given, the cheapest
// first. A victim that alone costs as much as the best is in none.
func (s *victimSearch) search(set []int) {
	best := s.costOf(s.best)
	set = slices.DeleteFunc(slices.Clone(set), func(v int) bool { return s.own[v].compare(best) >= 0 })
	if len(set) > 0 {
		s.decide(set, nil)
	}
}

// shortestPrefix is how many of the set, in order, are enough.
func (s *victimSearch) shortestPrefix(set []int) int {
	least, most := 1, len(set)
	for least < most {
		if n := (least + most) / 2; s.enough(set[:n]) {
			most = n
		} else {
			least = n + 1
		}
	}
	return most
}

// spare drops from the set, the dearest first, whoever is not needed. Where GPUs
// that come free may spoil links, one who was needed may not be without another.
func (s *victimSearch) spare(set []int) []int {
	for i := len(set) - 1; i >= 0 && len(set) > 1; i-- {
		if fewer := slices.Delete(slices.Clone(set), i, i+1); s.enough(fewer) {
			set = fewer
			if s.demands {
				i = len(set)
			}
		}
	}
	return set
}

func (s *victimSearch) offer(set []int) {
	if s.costOf(set).compare(s.costOf(s.best)) < 0 {
		s.best = set
	}
}

// byDomain lists, for each domain of the required level that victims stand in,
// those victims, the cheapest first; the domain with the cheapest first.
func (s *victimSearch) byDomain() [][]int {
	at := make(map[int]int)
	var sets [][]int
	for _, v := range s.byCost {
		for _, f := range s.victims[v].Frees {
			d := s.planner.tree.DomainOf(f.Host, s.p.Constraint.Required)
			i, ok := at[d]
			if !ok {
				i = len(sets)
				at[d] = i
				sets = append(sets, nil)
			}
			if n := len(sets[i]); n == 0 || sets[i][n-1] != v {
				sets[i] = append(sets[i], v)
			}
		}
	}
	return sets
}

// decide keeps or evicts the dearest of the rest, those in gone being evicted,
// and looks for sets below the best. O(2^victims) in the worst case; what cannot
// win or is not enough with all cheaper ones is cut off.
func (s *victimSearch) decide(rest, gone []int) {
	if s.plans > maxVictimPlans || len(gone) > 0 && s.costOf(gone).compare(s.costOf(s.best)) >= 0 {
		return
	}
	if !s.enough(append(slices.Clone(gone), rest...)) {
		return
	}
	if len(rest) == 0 {
		s.best = slices.Clone(gone)
		return
	}
	last := len(rest) - 1
	s.decide(rest[:last], gone)
	s.decide(rest[:last], append(slices.Clone(gone), rest[last]))
}
