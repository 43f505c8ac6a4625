// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tutti-project/tutti/pkg/topology"
)

// twinBest tries every way to place the gang and returns the best objective
// there is: what the planner is to be measured by.
type twinBest struct {
	p           Problem
	first, last int  // hosts
	whole       bool // not the spread alone
	best        []twinTerm
	hosts       [][]int // [role][rank] as placed so far
	free        [][]int64
	kinds       []string
}

// twinTerm is one term of the objective; less is better.
type twinTerm struct {
	name  string
	value int
}

func twinCompare(a, b []twinTerm) int {
	return slices.CompareFunc(a, b, func(a, b twinTerm) int { return a.value - b.value })
}

// twinObjective computes the objective of a placement from its definition:
// see the type objective.
func twinObjective(p Problem, hosts [][]int) []twinTerm {
	last := len(p.Tree.Levels()) - 1
	o := append(twinSpread(p, hosts), twinTerm{"strangers", twinStrangers(p, hosts)})
	for l := range last {
		if len(p.Tree.Domains(l)) < p.Tree.Hosts() {
			o = append(o, twinTerm{"load of uplinks", twinLoad(p, hosts, l)})
		}
	}
	return append(o, twinTerm{"hosts", twinDomains(p, hosts, last)}, twinTerm{"load of hosts", twinLoad(p, hosts, last)})
}

// twinSpread is the terms that more pods only make worse, but for the first.
func twinSpread(p Problem, hosts [][]int) []twinTerm {
	unplaced := 0
	for r := range hosts {
		unplaced += p.Roles[r].Pods - len(hosts[r])
	}
	near := twinNear(p)
	level := 0
	for level < near && twinDomains(p, hosts, level+1) == 1 {
		level++
	}
	o := []twinTerm{{"unplaced", unplaced}, {"level", near - level}}
	for l := max(level+1, p.Constraint.Preferred); l < len(p.Tree.Levels())-1; l++ {
		if len(p.Tree.Domains(l)) < p.Tree.Hosts() {
			o = append(o, twinTerm{"domains", twinDomains(p, hosts, l)})
		}
	}
	return o
}

// twinDomains counts the level's domains in which the gang stands or runs.
func twinDomains(p Problem, hosts [][]int, level int) int {
	var seen []int
	for _, hosts := range append(slices.Clone(hosts), p.Anchors) {
		for _, h := range hosts {
			if d := p.Tree.DomainOf(h, level); !slices.Contains(seen, d) {
				seen = append(seen, d)
			}
		}
	}
	return len(seen)
}

// twinNear is the level that is near enough.
func twinNear(p Problem) int {
	pods := 0
	for _, r := range p.Roles {
		pods += r.Pods
	}
	if p.Constraint.Preferred == 0 || pods == 1 && len(p.Anchors) == 0 {
		return len(p.Tree.Levels()) - 1
	}
	return max(p.Constraint.Preferred, p.Constraint.Required)
}

// twinStrangers counts pods without devices on hosts that have devices left.
func twinStrangers(p Problem, hosts [][]int) int {
	device, n := len(p.Resources)-1, 0
	left := make([]int64, len(p.Free))
	for h := range left {
		left[h] = p.Free[h][device]
	}
	for r := range hosts {
		for _, h := range hosts[r] {
			left[h] -= p.Roles[r].Request[device]
		}
	}
	for r := range hosts {
		for _, h := range hosts[r] {
			if p.Roles[r].Request[device] == 0 && left[h] > 0 {
				n++
			}
		}
	}
	return n
}

// twinLoad is what the most loaded uplink of the level carries: between each
// server inside and each worker outside, and the other way round, one part.
func twinLoad(p Problem, hosts [][]int, level int) int {
	most := 0
	for _, d := range p.Tree.Domains(level) {
		var in, out [2]int
		for r := range hosts {
			for _, h := range hosts[r] {
				i := 0
				if p.Roles[r].Serves {
					i = 1
				}
				if d.First <= h && h < d.Last {
					in[i]++
				} else {
					out[i]++
				}
			}
		}
		most = max(most, in[0]*out[1]+in[1]*out[0])
	}
	return most
}

// try places the role's next pod on every host that is not before from, and so on.
func (b *twinBest) try(role, from int) {
	p := b.p
	if role == len(p.Roles) {
		o := twinSpread(p, b.hosts)
		if b.whole {
			o = twinObjective(p, b.hosts)
		}
		if twinCompare(o, b.best) < 0 && twinIsAllowed(p, b.hosts) {
			b.best = o
		}
		return
	}
	r := p.Roles[role]
	if len(b.hosts[role]) >= min(r.Minimum, r.Pods) {
		b.try(role+1, b.first)
	}
	if len(b.hosts[role]) == r.Pods {
		return
	}
	for h := from; h < b.last; h++ {
		if !twinEligible(r, h) || !twinHasRoom(r, b.free[h]) || !twinIsOfKind(p, role, len(b.hosts[role]), h, b.kinds, func(r int) int { return len(b.hosts[r]) }) {
			continue
		}
		twinTake(r, b.free[h], 1)
		b.hosts[role] = append(b.hosts[role], h)
		if b.mayBeBetter() {
			b.try(role, h)
		}
		b.hosts[role] = b.hosts[role][:len(b.hosts[role])-1]
		twinTake(r, b.free[h], -1)
	}
}

// mayBeBetter spares the twin hours.
func (b *twinBest) mayBeBetter() bool {
	if b.best[0].value > 0 {
		return true // as soon as more pods are placed
	}
	o := twinSpread(b.p, b.hosts)
	return twinCompare(o[1:], b.best[1:min(len(o), len(b.best))]) <= 0
}

// twinIsAllowed checks the required level and the slices.
func twinIsAllowed(p Problem, hosts [][]int) bool {
	all := slices.Concat(append(hosts, p.Anchors)...)
	for _, h := range all {
		if p.Tree.DomainOf(h, p.Constraint.Required) != p.Tree.DomainOf(all[0], p.Constraint.Required) {
			return false
		}
	}
	if p.Constraint.SliceSize <= 1 {
		return true
	}
	for r := range hosts { // pods are alike: only how many stand in a domain counts
		in, short := make(map[int]int), 0
		for _, h := range hosts[r] {
			in[p.Tree.DomainOf(h, p.Constraint.SliceLevel)]++
		}
		for _, n := range in {
			if n%p.Constraint.SliceSize > 0 {
				short++
			}
		}
		if short > 1 {
			return false
		}
	}
	return true
}

// gapOf compares a decision's objective with the best there is: pods, level and
// domains with that of the whole cluster, the other terms with that of the domain
// that was chosen, for the tightest is.
func gapOf(p Problem, d Decision) (term string, gap int) {
	var placed [][]int
	for r := range d.Hosts {
		placed = append(placed, slices.DeleteFunc(slices.Clone(d.Hosts[r]), func(h int) bool { return h == Unplaced }))
	}
	spread, all := twinSpread(p, placed), twinObjective(p, placed)
	around := p.Tree.DomainOf(p.Tree.Domain(d.Domain).First, min(d.Level, twinNear(p)))
	if term, gap = twinGap(spread, twinSearch(p, spread, p.Tree.Domain(0), false)); term == "" {
		term, gap = twinGap(all, twinSearch(p, all, p.Tree.Domain(around), true))
	}
	return term, gap
}

func twinGap(got, best []twinTerm) (term string, gap int) {
	for i, o := range got {
		if o != best[i] {
			return o.name, o.value - best[i].value
		}
	}
	return "", 0
}

func twinSearch(p Problem, from []twinTerm, d topology.Domain, whole bool) []twinTerm {
	b := twinBest{p: p, whole: whole, first: d.First, last: d.Last, best: from, hosts: make([][]int, len(p.Roles)), free: cloned(p.Free), kinds: make([]string, len(p.Roles))}
	b.try(0, d.First)
	return b.best
}

// TestObjectiveIsTheBestThereIs compares what placements are worth with the best
// of all placements.
func TestObjectiveIsTheBestThereIs(t *testing.T) {
	const n = 20_000
	compared, unequal, gaps, worst := 0, 0, map[string]int{}, map[string]int{}
	for seed := range n {
		p := randomProblem(rand.New(rand.NewPCG(uint64(seed), 7)).IntN)
		for r := range p.Roles {
			p.Roles[r].Link = 0 // the search for the best knows of no links
		}
		d := Plan(p)
		if d.Hosts == nil {
			continue
		}
		compared++
		if term, gap := gapOf(p, d); term != "" {
			unequal++
			gaps[term]++
			worst[term] = max(worst[term], gap)
		}
	}
	for _, term := range slices.Sorted(maps.Keys(gaps)) {
		t.Logf("%d times more %s, by at most %d", gaps[term], term, worst[term])
	}
	t.Logf("%d placements of %d problems, %.2f %% are the best there is", compared, n, 100-100*float64(unequal)/float64(compared))
	if compared < n/3 || unequal*1000 > compared*5 {
		t.Error("goal: 99.5 %")
	}
}
