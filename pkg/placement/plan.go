// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package placement answers: on which hosts does a gang run, and if nowhere, why?
//
// Plan is a pure function of its Problem: no clock, no randomness, no I/O, and
// ties always go to the first in tree order. It proceeds in four steps.
//
//  1. Slots (shape.go): how many pods of each role fit on each host alone,
//     summed up for every domain. A Planner keeps them from plan to plan; what
//     one plan assumes or finds out is its own (slots.go).
//  2. Search (search.go): domains from the narrowest level up to the required
//     one, the tightest first; a domain whose sums are too small is out at once.
//  3. Cover (cover.go, bestfit.go): inside the domain, level by level, as few
//     sub-domains as hold the gang; the last is the one that it fills best.
//  4. Pack (pack.go): pods onto hosts, all roles against the same capacity.
//     Where the quick packing finds no room, the exact one (exact.go) decides.
//
// Promises, kept by the tests:
//
//	P1  No host is used beyond its free capacity, in any resource.
//	P2  With a required level all pods, running ones included, share a domain of it.
//	P3  Every role has its minimum, or the decision has no hosts at all.
//	P4  A "no" that is not Bounded means that no assignment exists.
//	P5  No domain of a narrower level than the one found holds the gang, unless
//	    a preferred level made the search begin above it, or Bounded is set.
//	    Where roles or eligibility differ, tightness and spread of a domain are
//	    judged by sums: upper bounds, which may prefer a domain of the same level
//	    that another would beat.
//	P6  Equal problems have equal decisions, whatever a Planner has seen before.
//
// The package knows nothing of Kubernetes objects, nor of what a level is called.
package placement

import (
	"cmp"
	"slices"
)

// Plan places the whole gang or none of it.
//
// A level is searched first for a domain that holds all pods. Only if there is
// none up to the required level does the gang go with its minimums, and then
// pods beyond them are added, nearest first, as long as there is room.
func Plan(p Problem) Decision {
	c := newCapacity(p.Tree, p.Resources, p.Free)
	c.setHosts(p)
	return c.Plan(p)
}

// setHosts takes over what the problem says of hosts besides their free vectors.
func (c *Planner) setHosts(p Problem) {
	for h, kind := range p.Kinds {
		c.SetKind(h, kind)
	}
	for h, gpus := range p.GPUs {
		c.SetGPUs(h, gpus)
	}
	for _, empty := range p.Empty {
		c.SetEmpty(empty)
	}
}

func (pl *plan) decide() Decision {
	p := pl.p
	full, minimum := make([]int64, len(p.Roles)), make([]int64, len(p.Roles))
	for r, role := range p.Roles {
		full[r] = int64(role.Pods)
		minimum[r] = int64(min(role.Minimum, role.Pods))
	}

	widest := pl.tierOf[p.Constraint.Required]
	found, ok := pl.search(full, pl.whole())
	if !ok && !slices.Equal(full, minimum) {
		found, ok = pl.minimumAndMore(minimum, full, widest)
	}
	d := Decision{Bounded: pl.bounded}
	switch {
	case ok:
		d.Hosts = pl.settle(found, full, minimum)
		d.GPUs = pl.pickGPUs(d.Hosts)
		d.Level, d.Domain = pl.enclosing(d.Hosts)
	case totalOf(minimum) == 0: // anchors stand in several domains: nothing joins them, and nothing has to
		d.Hosts, ok = make(fill, len(full)).ranks(p.Roles), true
		d.Level, d.Domain = pl.enclosing(d.Hosts)
	case pl.aim == feasible:
		d.Bounded = d.Bounded && pl.someSumsHold(minimum, widest)
		return d
	default:
		d.Rejections = pl.reject(minimum, p.Constraint.Required, maxRejections)
		d.Bounded = d.Bounded && pl.someSumsHold(minimum, widest)
	}
	d.Exclusions = pl.exclusions()
	if !ok {
		d.Wider = pl.wider(minimum) // who refuses elsewhere is no reason here
		d.Levels = pl.rejectWider(minimum, d.Wider)
		d.Roughly = pl.roughly
	}
	for r := range pl.kinds {
		d.Kinds = append(d.Kinds, pl.kindOf(r))
	}
	return d
}

// minimumAndMore places the minimum in the roomiest domain of the tier that takes
// it, and there as much of the rest as fits.
func (pl *plan) minimumAndMore(minimum, full []int64, tier int) (fill, bool) {
	for _, k := range pl.roomiest(tier, full) {
		scope := pl.tiers[tier].domains[k]
		if !pl.sumsHold(minimum, tier, k) {
			continue
		}
		found, ok := pl.search(minimum, scope)
		switch {
		case !ok:
			continue
		case pl.sliced(tier):
			found = pl.addSlices(found, minimum, full, func(need []int64) (fill, bool) { return pl.search(need, scope) })
		default:
			pl.addExtras(found, full, scope)
		}
		return found, true
	}
	return nil, false
}

// kindOf is the kind of hosts that the role was planned with, empty for any.
func (pl *plan) kindOf(role int) string {
	switch kind := pl.kinds[role]; kind {
	case anyKind:
		return ""
	case noKind:
		return pl.p.Roles[role].Kind
	default:
		return pl.kindNames[kind]
	}
}

// settle moves the servers and gives out the ranks.
func (pl *plan) settle(found fill, full, minimum []int64) [][]int {
	if pl.aim > feasible && !pl.sliced(0) && found.holds(full) {
		pl.spreadServers(found) // or what has no room yet might have some then
	}
	if pl.aim == finished {
		found = pl.refine(found, full, minimum)
	}
	if pl.sliced(0) {
		hosts := found.ranks(pl.p.Roles)
		for r := range hosts {
			hosts[r] = pl.slicesInOrder(hosts[r])
		}
		return hosts
	}
	return found.ranks(pl.p.Roles)
}

// holds says whether so many pods of each role are placed.
func (f fill) holds(need []int64) bool {
	for r, n := range need {
		for _, s := range f[r] {
			n -= s.pods
		}
		if n > 0 {
			return false
		}
	}
	return true
}

// ranks spreads each role's ranks over its hosts in tree order.
func (f fill) ranks(roles []Role) [][]int {
	hosts := make([][]int, len(roles))
	for r, role := range roles {
		hosts[r] = make([]int, 0, role.Pods)
		slices.SortFunc(f[r], func(a, b share) int { return cmp.Compare(a.host, b.host) })
		for _, s := range f[r] {
			for range s.pods {
				hosts[r] = append(hosts[r], s.host)
			}
		}
		for len(hosts[r]) < role.Pods {
			hosts[r] = append(hosts[r], Unplaced)
		}
	}
	return hosts
}

// enclosing finds the narrowest domain around all placed and running pods.
func (pl *plan) enclosing(hosts [][]int) (level, domain int) {
	first, last := pl.anchorFirst, pl.anchorLast
	for _, ranks := range hosts {
		for _, h := range ranks {
			if h != Unplaced {
				first, last = min(first, h), max(last, h)
			}
		}
	}
	if first > last {
		return 0, pl.p.Tree.Domains(0)[0].ID
	}
	for level = len(pl.p.Tree.Levels()) - 1; ; level-- {
		domain = pl.p.Tree.DomainOf(first, level)
		if domain == pl.p.Tree.DomainOf(last, level) {
			return level, domain
		}
	}
}
