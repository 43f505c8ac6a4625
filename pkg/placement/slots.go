// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"math"
	"slices"

	"github.com/tutti-project/tutti/pkg/topology"
)

// plan is the state of one plan: what the planner knows, less what this plan
// assumes or has found out. A host has no slots for a role that may not stand
// on it; a host not asked yet counts as eligible, so sums are upper bounds and
// only ever shrink.
type plan struct {
	*Planner // shared: only its marks are written to

	p      *Problem
	kinds  []int    // [role] of hosts that it is planned with
	shapes []*shape // [role]
	order  []int    // roles, those that are hardest to place first
	lead   int      // the role whose slots say how tight a domain is
	tiers  []tier   // as in the planner

	assumed map[int]Change // [host] the problem's changes
	demands bool           // some role demands links

	anchorFirst, anchorLast int // range of the anchors' hosts; first > last without anchors

	excluded map[int]bool // hosts not eligible for some role, and counted in reasons
	reasons  map[string]int

	exclusionCount int // of role and host

	room    room
	limits  limits
	bounded bool // they were too narrow
	roughly bool // and what a refusal tells is not certain to be the nearest
	aim     aim
}

type verdict uint8

const (
	unasked verdict = iota
	eligible
	ineligible
)

// tier is a stratum with this plan's sums.
type tier struct {
	stratum
	slots    [][]int64    // [role][domain]; nil for the hosts
	anchored map[int]bool // domains; nil without anchors
}

// marks are a plan's notes about hosts. They are as long as the cluster, so the
// planner lends them, and a plan wipes out only what it wrote.
type marks struct {
	row   []int32     // [host] see room
	asked [][]verdict // [role][host]
	told  [][]int     // [role] the hosts that were asked

	refused []refusal // by the hosts that were asked

	candidates []candidate // memory for the list of one tier
	keys       []key       // and of one packing
	left       []int64     // and for the room of one plan
	hosts      []int
}

func newMarks(hosts int) marks { return marks{row: make([]int32, hosts)} }

func (m *marks) grow(roles int) {
	for len(m.asked) < roles {
		m.asked = append(m.asked, make([]verdict, len(m.row)))
		m.told = append(m.told, nil)
	}
}

func (m *marks) clear() {
	m.refused = m.refused[:0]
	for r, hosts := range m.told {
		for _, h := range hosts {
			m.asked[r][h] = unasked
		}
		m.told[r] = hosts[:0]
	}
}

func newPlan(c *Planner, p *Problem, kinds []int, l limits) *plan {
	pl := &plan{Planner: c, p: p, kinds: kinds, limits: l, anchorFirst: math.MaxInt, anchorLast: -1}
	for _, h := range p.Anchors {
		pl.anchorFirst, pl.anchorLast = min(pl.anchorFirst, h), max(pl.anchorLast, h)
	}
	pl.shapes = make([]*shape, len(p.Roles))
	for r := range p.Roles {
		pl.shapes[r] = c.shapeOf(&p.Roles[r], kinds[r])
		pl.demands = pl.demands || pl.shapes[r].link > 0
	}
	c.marks.grow(len(p.Roles))
	pl.excluded, pl.reasons = make(map[int]bool), make(map[string]int)
	pl.room = room{pl: pl, row: c.marks.row, left: c.marks.left, hosts: c.marks.hosts}
	pl.addTiers()
	pl.assume()
	pl.recall()
	pl.orderRoles()
	return pl
}

type refusal struct {
	role, host int
	reason     string
}

// release gives the marks back, but for what was asked: the next choice of
// kinds recalls it.
func (pl *plan) release() {
	pl.room.reset()
	pl.marks.left, pl.marks.hosts = pl.room.left, pl.room.hosts
	for _, r := range pl.marks.refused {
		pl.marks.asked[r.role][r.host] = unasked
	}
}

// recall takes out what hosts refused when they were planned with other kinds.
func (pl *plan) recall() {
	for _, r := range pl.marks.refused {
		pl.exclude(r.role, r.host, r.reason)
	}
}

// addTiers copies the sums that this plan may lower: O(domains x roles).
func (pl *plan) addTiers() {
	last := len(pl.Planner.tiers) - 1
	pl.tiers = make([]tier, last+1)
	for t := range pl.tiers {
		tr := &pl.tiers[t]
		tr.stratum = pl.Planner.tiers[t]
		if t < last {
			tr.slots = make([][]int64, len(pl.shapes))
			for r, s := range pl.shapes {
				tr.slots[r] = slices.Clone(s.sums[t])
			}
		}
		if len(pl.p.Anchors) > 0 {
			tr.anchored = make(map[int]bool)
			for _, h := range pl.p.Anchors {
				tr.anchored[pl.domainAt(t, h)] = true
			}
		}
	}
}

// assume takes the problem's changes into the sums.
func (pl *plan) assume() {
	if len(pl.p.Changes) == 0 {
		return
	}
	pl.assumed = make(map[int]Change, len(pl.p.Changes))
	for t := range pl.tiers[:len(pl.tiers)-1] {
		pl.tiers[t].devices = slices.Clone(pl.tiers[t].devices)
	}
	for _, change := range pl.p.Changes {
		h := change.Host
		before, devices := make([]int64, len(pl.shapes)), pl.devicesOn(h)
		for r := range pl.shapes {
			before[r] = pl.slotsOf(r, h)
		}
		pl.assumed[h] = change
		for t := range pl.tiers[:len(pl.tiers)-1] {
			k := pl.domainAt(t, h)
			pl.tiers[t].devices[k] += pl.devicesOn(h) - devices
			for r := range pl.shapes {
				pl.tiers[t].slots[r][k] += pl.slotsOf(r, h) - before[r]
			}
		}
	}
}

// freeOn is what the host has left before this plan places anything.
func (pl *plan) freeOn(host int) []int64 {
	if pl.assumed != nil {
		if change, ok := pl.assumed[host]; ok {
			return change.Free
		}
	}
	return pl.free[host]
}

func (pl *plan) devicesOn(host int) int64 {
	if pl.assumed != nil {
		if change, ok := pl.assumed[host]; ok {
			return pl.devicesIn(change.Free)
		}
	}
	return pl.devices[host]
}

// slotsOf is how many pods of the role the empty plan has room for on the host.
func (pl *plan) slotsOf(role, host int) int64 {
	if pl.marks.asked[role][host] == ineligible {
		return 0
	}
	if pl.assumed != nil {
		if change, ok := pl.assumed[host]; ok {
			if !pl.isOfKind(host, pl.kinds[role]) {
				return 0
			}
			return pl.shapes[role].slotsOn(change.Free, pl.gpusOn(host))
		}
	}
	return pl.shapes[role].keys[host].slots()
}

func (pl *plan) slotsIn(free []int64, role int) int64 {
	s := pl.shapes[role]
	return slotsIn(free, s.request, s.unbound)
}

// sum is how many slots of the role the tier's k-th domain has.
func (pl *plan) sum(t, role, k int) int64 {
	if slots := pl.tiers[t].slots; slots != nil {
		return slots[role][k]
	}
	return pl.slotsOf(role, k)
}

// rankOf compares hosts with equally many slots of the role.
func (pl *plan) rankOf(role, host int) int64 {
	if pl.assumed != nil {
		if _, ok := pl.assumed[host]; ok {
			return pl.shapes[role].rank(pl.gpusOn(host), pl.devicesOn(host))
		}
	}
	return pl.shapes[role].keys[host].rank()
}

func (pl *plan) devicesAt(t, k int) int64 {
	if devices := pl.tiers[t].devices; devices != nil {
		return devices[k]
	}
	return pl.devicesOn(k)
}

// orderRoles puts roles with big pods first: packing them is what fails.
func (pl *plan) orderRoles() {
	perPod := func(r int) int64 { return pl.devicesIn(pl.p.Roles[r].Request) }
	total := func(r int) int64 { return perPod(r) * int64(pl.p.Roles[r].Pods) }
	pl.order = make([]int, len(pl.p.Roles))
	for r := range pl.p.Roles {
		pl.order[r] = r
	}
	slices.SortStableFunc(pl.order, func(a, b int) int {
		return cmp.Or(cmp.Compare(perPod(b), perPod(a)), cmp.Compare(pl.total(a), pl.total(b)))
	})
	for i, r := range pl.order {
		if i == 0 || total(r) > total(pl.lead) {
			pl.lead = r
		}
	}
}

// total is how many slots of the role the cluster has.
func (pl *plan) total(role int) int64 {
	if len(pl.tiers) > 1 {
		return pl.sum(0, role, 0)
	}
	n := int64(0) // the cluster is a single host, or has none
	for h := range pl.free {
		n += pl.slotsOf(role, h)
	}
	return n
}

// mayUse asks, once, whether the role may stand on the host, and takes the
// host's slots out of all sums if not.
func (pl *plan) mayUse(role, host int) bool {
	oracle := pl.p.Roles[role].Eligible
	if oracle == nil {
		return true
	}
	asked := pl.marks.asked[role]
	if asked[host] == unasked {
		pl.marks.told[role] = append(pl.marks.told[role], host)
		if ok, reason := oracle(host); ok {
			asked[host] = eligible
		} else {
			pl.marks.refused = append(pl.marks.refused, refusal{role, host, reason})
			pl.exclude(role, host, reason)
		}
	}
	return asked[host] == eligible
}

func (pl *plan) exclude(role, host int, reason string) {
	slots := pl.slotsOf(role, host)
	pl.marks.asked[role][host] = ineligible
	for t := range pl.tiers[:len(pl.tiers)-1] {
		pl.tiers[t].slots[role][pl.domainAt(t, host)] -= slots
	}
	pl.exclusionCount++
	if pl.excluded[host] {
		return
	}
	pl.excluded[host] = true
	pl.reasons[reason]++
}

// exclusions returns the reasons met so far, the most frequent first.
func (pl *plan) exclusions() []Exclusion {
	var reasons []Exclusion
	for reason, hosts := range pl.reasons {
		reasons = append(reasons, Exclusion{reason, hosts})
	}
	slices.SortFunc(reasons, func(a, b Exclusion) int {
		return cmp.Or(cmp.Compare(b.Hosts, a.Hosts), cmp.Compare(a.Reason, b.Reason))
	})
	return reasons
}

// whole is the cluster as a domain.
func (pl *plan) whole() topology.Domain { return pl.tiers[0].domains[0] }
