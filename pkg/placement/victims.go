// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"maps"
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
	// search stopped at its limit; but the placement's minimum needs all of the set.
	Least bool
}

// Limits of the search for victims.
const (
	maxVictimPlans   = 1 << 11 // plans of the exact search
	maxVictimWork    = 1 << 23 // hosts that plans look at, to spare victims and again in the exact search
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
// as long as the gang fits: a plan for each. The cheapest of these sets bounds an
// exact search, domain by domain, which keeps or evicts victim by victim.
func (c *Planner) PlanWithVictims(p Problem, victims []Victim) (Decision, Eviction) {
	s := newVictimSearch(c, p, victims)
	steps := maxSteps
	decision := c.plan(s.p, finished, &steps)
	if decision.Hosts != nil || len(s.byCost) == 0 {
		return decision, Eviction{Least: decision.Hosts != nil || !s.demands}
	}
	s.imagine()
	s.become(s.byCost)
	if !s.enough(0) {
		return decision, Eviction{Least: !s.demands && !s.bounded}
	}
	s.witness = s.last
	least := s.find() && !s.demands && !s.bounded
	placed := s.placeWithout()
	e := Eviction{Victims: s.best, Cost: s.costOf(s.best), Least: least && !placed.Bounded}
	slices.Sort(e.Victims)
	return placed, e
}

// find sets best, and tells whether nothing costs less.
func (s *victimSearch) find() (least bool) {
	if s.isSingle() && !s.demands {
		return s.single()
	}
	sets := s.byDomain()
	s.lookInto(sets)
	s.plans, s.work = 0, maxVictimWork
	for _, set := range sets {
		s.search(set)
	}
	return s.plans <= maxVictimPlans && s.work > 0
}

// enough plans the minimum on what the victims leave that are gone. At least so
// many steps are given to it, whatever other plans have spent.
func (s *victimSearch) enough(steps int) bool {
	s.plans++
	share := max(min(maxSteps, s.steps), steps)
	left, looked := share, s.whatIf.looked
	d := s.whatIf.plan(s.minimum, feasible, &left)
	s.work -= s.whatIf.looked - looked
	s.steps = max(0, s.steps-(share-left))
	if d.Hosts == nil {
		s.bounded = s.bounded || d.Bounded
		return false
	}
	s.last, s.takes = d, nil
	return true
}

// lastTakes is what the minimum takes in the last plan that was enough.
func (s *victimSearch) lastTakes() map[int][]int64 {
	if s.takes == nil {
		s.takes = s.takenBy(s.last.Hosts)
	}
	return s.takes
}

// takenBy is what the minimum of a placement takes of every host.
func (s *victimSearch) takenBy(hosts [][]int) map[int][]int64 {
	takes := make(map[int][]int64)
	for r, role := range s.p.Roles {
		for _, h := range hosts[r][:min(role.Minimum, role.Pods)] {
			if takes[h] == nil {
				takes[h] = make([]int64, len(role.Request))
			}
			for d, n := range role.Request {
				takes[h][d] = plus(takes[h][d], max(n, 0))
			}
		}
	}
	return takes
}

// placeWithout places the whole gang on what the best victims leave. Where plans
// were short of steps, the one that all steps are for may need fewer of them, or find
// nothing: then the placement that is known stands.
func (s *victimSearch) placeWithout() Decision {
	for {
		s.become(s.best)
		d := s.whole()
		if d.Hosts == nil {
			d = s.witness
			for r, role := range s.p.Roles {
				waiting := role.Pods - len(d.Hosts[r])
				d.Hosts[r] = append(d.Hosts[r], slices.Repeat([]int{Unplaced}, waiting)...)
				if d.GPUs != nil {
					d.GPUs[r] = append(d.GPUs[r], make([]topology.Set, waiting)...)
				}
			}
			d.Bounded = true
			return d
		}
		needed := s.spareUnused(slices.Clone(s.best), s.takenBy(d.Hosts))
		if len(needed) == len(s.best) {
			return d
		}
		s.best, s.witness = needed, s.cutToMinimum(d)
	}
}

func (s *victimSearch) cutToMinimum(d Decision) Decision {
	d.Hosts, d.GPUs = slices.Clone(d.Hosts), slices.Clone(d.GPUs)
	for r, role := range s.minimum.Roles {
		d.Hosts[r] = slices.Clone(d.Hosts[r][:role.Pods])
		if d.GPUs != nil {
			d.GPUs[r] = slices.Clone(d.GPUs[r][:role.Pods])
		}
	}
	return d
}

// whole is the plan that is carried out, on the planner that was asked.
func (s *victimSearch) whole() Decision {
	p := s.p
	p.Changes = nil
	hosts := make(map[int]bool)
	for _, change := range s.p.Changes {
		hosts[change.Host] = true
	}
	for _, v := range s.best {
		for _, f := range s.victims[v].Frees {
			hosts[f.Host] = true
		}
	}
	for _, h := range slices.Sorted(maps.Keys(hosts)) {
		p.Changes = append(p.Changes, s.left(h))
	}
	steps := maxSteps
	return s.planner.plan(p, finished, &steps)
}

// lookInto finds sets that are enough among those of each domain, and keeps the
// cheapest as the best.
func (s *victimSearch) lookInto(sets [][]int) {
	looked := 0
	for _, set := range sets {
		if looked == maxVictimDomains {
			break
		}
		if s.become(set); !s.enough(0) {
			continue
		}
		looked++
		s.offer(s.spare(s.shortestPrefix(set)))
	}
	if looked == 0 {
		s.become(s.byCost)
		s.enough(maxSteps)
		s.offer(s.spare(s.shortestPrefix(s.byCost)))
	}
}

// search looks for a set below the best among the victims given, the cheapest
// first. A victim that alone costs as much as the best is in none.
func (s *victimSearch) search(set []int) {
	best := s.costOf(s.best)
	set = slices.DeleteFunc(slices.Clone(set), func(v int) bool { return s.own[v].compare(best) >= 0 })
	if len(set) > 0 {
		s.become(set)
		s.decide(set, nil, false)
	}
}

// shortestPrefix is as many of the set, in order, as are enough; all of them are.
func (s *victimSearch) shortestPrefix(set []int) []int {
	least, most := 1, len(set)
	for least < most {
		n := (least + most) / 2
		if s.become(set[:n]); s.enough(0) {
			most = n
		} else {
			least = n + 1
		}
	}
	s.become(set[:most])
	return slices.Clone(set[:most])
}

// spare drops from the set, the dearest first, whoever is not needed: for the
// placement that is known, or for another one. Where GPUs that come free may spoil
// links, one who was needed may not be without another.
func (s *victimSearch) spare(set []int) []int {
	steps := maxSteps / maxVictimDomains / len(set)
	for before := len(set) + 1; len(set) < before; {
		before = len(set)
		for i, v := range slices.Backward(set) {
			if s.put(v, false); s.isUnused(v, s.lastTakes()) || len(set) > 1 && s.work > 0 && s.enough(steps) {
				set = slices.Delete(set, i, i+1)
			} else {
				s.put(v, true)
			}
		}
		if !s.demands {
			break
		}
	}
	return s.spareUnused(set, s.lastTakes())
}

// spareUnused drops from the set whoever the minimum of a placement does not need.
func (s *victimSearch) spareUnused(set []int, takes map[int][]int64) []int {
	for i, v := range slices.Backward(set) {
		if s.put(v, false); s.isUnused(v, takes) {
			set = slices.Delete(set, i, i+1)
		} else {
			s.put(v, true)
		}
	}
	return set
}

// isUnused: a victim that was put back leaves the placement's minimum what it takes.
// Of links nothing is said.
func (s *victimSearch) isUnused(victim int, takes map[int][]int64) bool {
	if s.demands {
		return false
	}
	for _, f := range s.victims[victim].Frees {
		left := s.whatIf.free[f.Host]
		for d, n := range takes[f.Host] {
			if n > 0 && left[d] < n {
				return false
			}
		}
	}
	return true
}

func (s *victimSearch) offer(set []int) {
	if s.costOf(set).compare(s.costOf(s.best)) < 0 {
		s.best, s.witness = set, s.last
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
// win or is not enough with all cheaper ones is cut off. All of both are gone when
// it is called, and that this is enough may be known.
func (s *victimSearch) decide(rest, gone []int, known bool) {
	s.work -= len(gone)
	if s.plans > maxVictimPlans || s.work <= 0 || len(gone) > 0 && s.costOf(gone).compare(s.costOf(s.best)) >= 0 {
		return
	}
	if !known && !s.enough(0) {
		return
	}
	if len(rest) == 0 {
		if !known || s.enough(0) { // for the placement
			s.best, s.witness = slices.Clone(gone), s.last
		}
		return
	}
	last := len(rest) - 1
	s.put(rest[last], false)
	s.decide(rest[:last], gone, false)
	s.put(rest[last], true)
	s.decide(rest[:last], append(slices.Clone(gone), rest[last]), true)
}
