// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/tutti-project/tutti/pkg/topology"
)

// planner is the state of one plan. Slots of a host are zero for a role that it
// has no room for or that may not stand on it; a host not asked yet counts as
// eligible, so sums are upper bounds and only ever shrink.
type planner struct {
	p     *Problem
	order []int // roles, those that are hardest to place first
	lead  int   // the role whose slots say how tight a domain is

	tiers  []tier    // from the cluster to the hosts
	tierOf []int     // [level]
	slots  [][]int64 // [role][host]; also the slots of the last tier
	device []bool    // [resource]

	anchorFirst, anchorLast int // range of the anchors' hosts; first > last without anchors

	asked    [][]verdict // [role][host]
	excluded []bool      // [host] not eligible for some role, and counted in reasons
	reasons  []Exclusion

	exclusionCount int // of role and host

	room       room
	steps      int  // left to the exact packing of domains
	coverSteps int  // left to it for choosing sub-domains, which needs no proof
	bounded    bool // steps were too few
}

type verdict uint8

const (
	unasked verdict = iota
	eligible
	ineligible
)

// tier is a level together with its domains' sums. Levels that cut the cluster
// into the same domains are one tier, the narrowest of them.
type tier struct {
	level    int
	domains  []topology.Domain
	slots    [][]int64 // [role][domain in tier]
	devices  []int64   // [domain in tier] free devices of all kinds
	anchored []bool    // [domain in tier]; nil without anchors
}

func newPlanner(p *Problem) *planner {
	pl := &planner{p: p, steps: maxSteps, coverSteps: maxCoverSteps, anchorFirst: math.MaxInt, anchorLast: -1}
	for _, h := range p.Anchors {
		pl.anchorFirst, pl.anchorLast = min(pl.anchorFirst, h), max(pl.anchorLast, h)
	}
	pl.device = make([]bool, len(p.Resources))
	for d, name := range p.Resources {
		pl.device[d] = IsDevice(name)
	}
	pl.slots = make([][]int64, len(p.Roles))
	pl.asked = make([][]verdict, len(p.Roles))
	for r, role := range p.Roles {
		pl.slots[r] = make([]int64, len(p.Free))
		for h, free := range p.Free {
			pl.slots[r][h] = slotsIn(free, role)
		}
		pl.asked[r] = make([]verdict, len(p.Free))
	}
	pl.excluded = make([]bool, len(p.Free))
	pl.room = newRoom(pl)
	pl.addTiers()
	pl.orderRoles()
	return pl
}

// IsDevice tells devices, which are worth keeping together and for those who
// ask for them, from what every host has: Kubernetes names an extended resource
// with its vendor's domain, and its own without.
func IsDevice(resource string) bool { return strings.Contains(resource, "/") }

// slotsIn is how many pods of the role fit into the free vector. What a pod
// does not ask for does not bind it, even where it is overcommitted.
func slotsIn(free []int64, role Role) int64 {
	n := int64(role.Pods)
	bound := false
	for d, request := range role.Request {
		if request <= 0 {
			continue
		}
		if free[d] < request {
			return 0
		}
		if s := free[d] / request; s < n || !bound {
			n, bound = s, true
		}
	}
	return n
}

// addTiers sums slots and devices up the tree: O(hosts x (roles + levels)).
func (pl *planner) addTiers() {
	t := pl.p.Tree
	last := len(t.Levels()) - 1
	pl.tierOf = make([]int, last+1)
	for level := 0; level <= last; level++ {
		pl.tierOf[level] = len(pl.tiers)
		if level < last && len(t.Domains(level)) == len(t.Domains(level+1)) {
			continue
		}
		pl.tiers = append(pl.tiers, tier{level: level, domains: t.Domains(level)})
	}
	devices := prefixSums(len(pl.p.Free), func(h int) int64 { return pl.devicesIn(pl.p.Free[h]) })
	slots := make([][]int64, len(pl.slots))
	for r := range slots {
		slots[r] = prefixSums(len(pl.p.Free), func(h int) int64 { return pl.slots[r][h] })
	}
	for i := range pl.tiers {
		tr := &pl.tiers[i]
		tr.devices = rangeSums(devices, tr.domains)
		tr.slots = pl.slots // of the hosts' tier
		if i < len(pl.tiers)-1 {
			tr.slots = make([][]int64, len(slots))
			for r := range slots {
				tr.slots[r] = rangeSums(slots[r], tr.domains)
			}
		}
		if len(pl.p.Anchors) > 0 {
			tr.anchored = make([]bool, len(tr.domains))
			for _, h := range pl.p.Anchors {
				tr.anchored[pl.domainAt(i, h)] = true
			}
		}
	}
}

func prefixSums(n int, value func(int) int64) []int64 {
	sums := make([]int64, n+1)
	for i := range n {
		sums[i+1] = sums[i] + value(i)
	}
	return sums
}

func rangeSums(prefix []int64, domains []topology.Domain) []int64 {
	sums := make([]int64, len(domains))
	for k, d := range domains {
		sums[k] = prefix[d.Last] - prefix[d.First]
	}
	return sums
}

func (pl *planner) devicesIn(free []int64) int64 {
	n := int64(0)
	for d, v := range free {
		if pl.device[d] {
			n += max(v, 0)
		}
	}
	return n
}

// orderRoles puts roles with big pods first: packing them is what fails.
func (pl *planner) orderRoles() {
	perPod := func(r int) int64 { return pl.devicesIn(pl.p.Roles[r].Request) }
	total := func(r int) int64 { return perPod(r) * int64(pl.p.Roles[r].Pods) }
	for r := range pl.p.Roles {
		pl.order = append(pl.order, r)
	}
	slices.SortStableFunc(pl.order, func(a, b int) int {
		return cmp.Or(cmp.Compare(perPod(b), perPod(a)),
			cmp.Compare(pl.tiers[0].slots[a][0], pl.tiers[0].slots[b][0]))
	})
	for i, r := range pl.order {
		if i == 0 || total(r) > total(pl.lead) {
			pl.lead = r
		}
	}
}

// domainAt is the position within the tier of the host's domain.
func (pl *planner) domainAt(tier, host int) int {
	tr := &pl.tiers[tier]
	return pl.p.Tree.DomainOf(host, tr.level) - tr.domains[0].ID
}

// usesDevices says whether the role's pods ask for any device.
func (pl *planner) usesDevices(role int) bool { return pl.devicesIn(pl.p.Roles[role].Request) > 0 }

// mayUse asks, once, whether the role may stand on the host, and takes the
// host's slots out of all sums if not.
func (pl *planner) mayUse(role, host int) bool {
	oracle := pl.p.Roles[role].Eligible
	if oracle == nil {
		return true
	}
	if pl.asked[role][host] == unasked {
		ok, reason := oracle(host)
		pl.asked[role][host] = eligible
		if !ok {
			pl.asked[role][host] = ineligible
			pl.exclude(role, host, reason)
		}
	}
	return pl.asked[role][host] == eligible
}

func (pl *planner) exclude(role, host int, reason string) {
	slots := pl.slots[role][host]
	for t := range pl.tiers {
		pl.tiers[t].slots[role][pl.domainAt(t, host)] -= slots
	}
	pl.exclusionCount++
	if pl.excluded[host] {
		return
	}
	pl.excluded[host] = true
	i := slices.IndexFunc(pl.reasons, func(e Exclusion) bool { return e.Reason == reason })
	if i < 0 {
		i = len(pl.reasons)
		pl.reasons = append(pl.reasons, Exclusion{Reason: reason})
	}
	pl.reasons[i].Hosts++
}

// exclusions returns the reasons met so far, the most frequent first.
func (pl *planner) exclusions() []Exclusion {
	slices.SortFunc(pl.reasons, func(a, b Exclusion) int {
		return cmp.Or(cmp.Compare(b.Hosts, a.Hosts), cmp.Compare(a.Reason, b.Reason))
	})
	return pl.reasons
}
