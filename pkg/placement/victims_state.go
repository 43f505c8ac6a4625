// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"
)

// victimSearch is the state of one search for victims.
type victimSearch struct {
	planner *Planner // that was asked, and stays as it is
	p       Problem
	victims []Victim
	own     []Cost // [victim] by itself
	byCost  []int  // victims, the cheapest first
	best    []int
	witness Decision // places the minimum without the best victims

	// whatIf is a planner of the search's own, from whose hosts the victims that
	// are gone have gone: of one more or one less it costs what that frees.
	whatIf  *Planner
	minimum Problem // the gang with none of its pods beyond the minimum
	gone    []bool  // [victim]
	covers  []int   // [victim] how many that are gone take it with them
	frees   map[int][]freed
	last    Decision        // of the last plan that was enough
	takes   map[int][]int64 // [host] what its minimum takes; nil until it is asked for

	plans   int
	work    int  // left to it: hosts that plans look at
	steps   int  // left to all plans
	bounded bool // a plan that says no might have found a way with more steps

	changed map[int]Change // the problem's own changes, by host
	demands bool           // some role demands links
	covered []bool         // [victim] goes with another one
}

// freed is what a victim frees on a host.
type freed struct {
	victim int
	Change
}

// maxStarted is the start of nobody.
const maxStarted = 1<<63 - 1

func newVictimSearch(c *Planner, p Problem, victims []Victim) *victimSearch {
	s := &victimSearch{planner: c, p: p, victims: victims, steps: maxVictimSteps, work: maxVictimWork}
	s.covered, s.gone, s.covers = make([]bool, len(victims)), make([]bool, len(victims)), make([]int, len(victims))
	s.changed = make(map[int]Change, len(p.Changes))
	for _, change := range p.Changes {
		s.changed[change.Host] = change
	}
	s.p.Roles = slices.Clone(p.Roles)
	for r := range s.p.Roles {
		s.p.Roles[r].Eligible = remembered(p.Roles[r].Eligible)
		s.demands = s.demands || p.Roles[r].demands()
	}
	s.minimum = s.p
	s.minimum.Changes = nil
	s.minimum.Roles = slices.Clone(s.p.Roles)
	for r := range s.minimum.Roles {
		role := &s.minimum.Roles[r]
		role.Pods = min(role.Pods, role.Minimum)
	}
	s.frees = make(map[int][]freed)
	for v := range victims {
		s.own = append(s.own, s.costOf([]int{v}))
		for _, f := range victims[v].Frees {
			s.frees[f.Host] = append(s.frees[f.Host], freed{v, f})
		}
	}
	s.byCost = s.useful()
	slices.SortStableFunc(s.byCost, func(a, b int) int { return s.own[a].compare(s.own[b]) })
	s.best = s.byCost
	return s
}

// imagine makes the planner for what-ifs. O(hosts).
func (s *victimSearch) imagine() {
	s.whatIf = s.planner.copied()
	for h := range s.changed {
		s.refresh(h)
	}
}

// copied is a planner that knows the same and is changed by itself.
func (c *Planner) copied() *Planner {
	o := NewPlanner(c.tree, c.resources, slices.Clone(c.free))
	o.fewHosts, o.remembers = c.fewHosts, true
	o.kinds, o.kindNames, o.ofKind, o.gpus = slices.Clone(c.kinds), slices.Clone(c.kindNames), slices.Clone(c.ofKind), slices.Clone(c.gpus)
	return o
}

// left is what the host has without the victims that are gone.
func (s *victimSearch) left(host int) Change {
	left, changed := s.changed[host]
	if !changed {
		left = Change{Host: host, Free: s.planner.free[host], GPUs: s.planner.GPUs(host).Free}
	}
	left.Free = slices.Clone(left.Free)
	of := s.planner.GPUs(host)
	for _, f := range s.frees[host] {
		if !s.gone[f.victim] || s.covers[f.victim] > 0 {
			continue
		}
		for d, n := range f.Free {
			left.Free[d] = plus(left.Free[d], n)
		}
		if f.GPUs == 0 && !of.PlannerPicks {
			f.GPUs = of.Healthy // one of these: which is not known
		}
		left.GPUs |= f.GPUs
	}
	return left
}

func (s *victimSearch) refresh(host int) {
	left := s.left(host)
	s.whatIf.SetGPUs(host, s.planner.GPUs(host).after(left, s.planner.free[host]))
	s.whatIf.SetFree(host, left.Free)
}

// put has a victim go or stay. O(what it and its parts free).
func (s *victimSearch) put(victim int, gone bool) {
	if s.gone[victim] == gone {
		return
	}
	s.gone[victim] = gone
	one := 1
	if !gone {
		one = -1
	}
	stale := s.victims[victim].Frees
	for _, part := range s.victims[victim].Parts {
		s.covers[part] += one
		stale = append(stale[:len(stale):len(stale)], s.victims[part].Frees...)
	}
	for _, f := range stale {
		s.refresh(f.Host)
	}
}

// become has these victims gone and no others.
func (s *victimSearch) become(set []int) {
	wanted := make([]bool, len(s.victims))
	for _, v := range set {
		wanted[v] = true
	}
	for v, gone := range wanted {
		s.put(v, gone)
	}
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
