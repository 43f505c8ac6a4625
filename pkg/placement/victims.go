// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"
)

// Victim is what can be evicted as one: a whole gang, or a pod that no gang needs.
type Victim struct {
	Name  string
	Cost  Cost
	Frees []Change // what its hosts get back; each host at most once
}

// Cost is what an eviction costs, of one victim or of several, most important first.
type Cost struct {
	Violations int   // of disruption budgets
	Priority   int   // the highest
	Gangs      int   // 0 for a single pod
	Pods       int   // at least 1
	Started    int64 // the earliest: of work that began later less is lost
}

func (a Cost) compare(b Cost) int {
	return cmp.Or(cmp.Compare(a.Violations, b.Violations), cmp.Compare(a.Priority, b.Priority),
		cmp.Compare(a.Gangs, b.Gangs), cmp.Compare(a.Pods, b.Pods), cmp.Compare(b.Started, a.Started))
}

// and is the cost of both. It is above that of either: no victim is for nothing.
func (a Cost) and(b Cost) Cost {
	return Cost{
		a.Violations + b.Violations, max(a.Priority, b.Priority), a.Gangs + b.Gangs, a.Pods + b.Pods, min(a.Started, b.Started),
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
	for h, kind := range p.Kinds {
		c.SetKind(h, kind)
	}
	return c.PlanWithVictims(p, victims)
}

// PlanWithVictims finds the least costly victims whose eviction lets the gang
// start with its minimum, and the placement with them. Nobody is evicted for a
// gang that fits, nor for one that would not fit even without all of them: then
// the decision is that of Plan. Pods beyond the minimum may use what is freed,
// but nothing is freed for them. Eligible is asked as if all victims were gone.
//
// More victims never make a gang fit less, and cost more. So in every domain of
// the required level the cheapest victims that are enough are found by halving,
// and spared from the dearest on as long as the gang fits. The cheapest of these
// sets bounds an exact search, which keeps or evicts victim by victim.
func (c *Planner) PlanWithVictims(p Problem, victims []Victim) (Decision, Eviction) {
	s := newVictimSearch(c, p, victims)
	decision := s.planWithout(nil)
	if decision.Hosts != nil || len(victims) == 0 {
		return decision, Eviction{Least: true}
	}
	if s.planWithout(s.byCost).Hosts == nil {
		return decision, Eviction{Least: true}
	}
	s.lookIntoDomains()
	s.plans = 0
	s.decide(0, nil, Cost{Started: maxStarted})
	e := Eviction{Victims: s.best, Cost: s.costOf(s.best), Least: s.plans <= maxVictimPlans}
	slices.Sort(e.Victims)
	decision = s.planWithout(e.Victims)
	e.Least = e.Least && !decision.Bounded
	return decision, e
}

// victimSearch is the state of one search for victims.
type victimSearch struct {
	planner *Planner
	p       Problem
	victims []Victim
	byCost  []int // victims, the cheapest first
	plans   int
	best    []int
}

// maxStarted is the start of nobody.
const maxStarted = 1<<63 - 1

func newVictimSearch(c *Planner, p Problem, victims []Victim) *victimSearch {
	s := &victimSearch{planner: c, p: p, victims: victims}
	s.p.Roles = slices.Clone(p.Roles)
	for r := range s.p.Roles {
		s.p.Roles[r].Eligible = remembered(p.Roles[r].Eligible)
	}
	for v := range victims {
		s.byCost = append(s.byCost, v)
	}
	slices.SortStableFunc(s.byCost, func(a, b int) int { return victims[a].Cost.compare(victims[b].Cost) })
	s.best = s.byCost
	return s
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

func (s *victimSearch) costOf(set []int) Cost {
	cost := Cost{Started: maxStarted}
	for i, v := range set {
		if i == 0 {
			cost = s.victims[v].Cost
		} else {
			cost = cost.and(s.victims[v].Cost)
		}
	}
	return cost
}

// planWithout plans as if the victims were gone.
func (s *victimSearch) planWithout(gone []int) Decision {
	s.plans++
	free := make(map[int][]int64)
	var order []int
	take := func(h int, base []int64) []int64 {
		if free[h] == nil {
			free[h] = slices.Clone(base)
			order = append(order, h)
		}
		return free[h]
	}
	for _, change := range s.p.Changes {
		take(change.Host, change.Free)
	}
	for _, v := range gone {
		for _, f := range s.victims[v].Frees {
			left := take(f.Host, s.planner.free[f.Host])
			for d, n := range f.Free {
				left[d] += n
			}
		}
	}
	p := s.p
	p.Changes = nil
	for _, h := range order {
		p.Changes = append(p.Changes, Change{Host: h, Free: free[h]})
	}
	return s.planner.Plan(p)
}

func (s *victimSearch) enough(set []int) bool { return s.planWithout(set).Hosts != nil }

// lookIntoDomains finds sets that are enough, by the victims in each domain of
// the required level, and keeps the cheapest as the best.
func (s *victimSearch) lookIntoDomains() {
	looked := 0
	for _, set := range s.byDomain() {
		if looked == maxVictimDomains {
			break
		}
		if !s.enough(set) {
			continue
		}
		looked++
		s.offer(s.spare(slices.Clone(set[:s.shortestPrefix(set)])))
	}
	s.offer(s.spare(slices.Clone(s.byCost[:s.shortestPrefix(s.byCost)])))
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

// spare drops from the set, the dearest first, whoever is not needed.
func (s *victimSearch) spare(set []int) []int {
	for i := len(set) - 1; i >= 0 && len(set) > 1; i-- {
		if fewer := slices.Delete(slices.Clone(set), i, i+1); s.enough(fewer) {
			set = fewer
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

// decide keeps or evicts the dearest victims from the i-th on, those before it
// being decided, and looks for sets below the best. O(2^victims) in the worst
// case; what cannot win or is not enough with all cheaper ones is cut off.
func (s *victimSearch) decide(i int, gone []int, cost Cost) {
	rest := s.byCost[:len(s.byCost)-i]
	if s.plans > maxVictimPlans || len(gone) > 0 && cost.compare(s.costOf(s.best)) >= 0 {
		return
	}
	if !s.enough(append(slices.Clone(gone), rest...)) {
		return
	}
	if len(rest) == 0 {
		s.best = slices.Clone(gone)
		return
	}
	v := rest[len(rest)-1]
	s.decide(i+1, gone, cost)
	with := s.victims[v].Cost
	if len(gone) > 0 {
		with = with.and(cost)
	}
	s.decide(i+1, append(slices.Clone(gone), v), with)
}
