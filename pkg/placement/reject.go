// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"

	"github.com/tutti-project/tutti/pkg/topology"
)

// Limits of what a "no" tells: so many domains are named, and so many looked
// into to find those. The others are judged by their sums alone.
const (
	maxRejections = 2
	maxLookedInto = 32
)

// reject tells of the level's domains that are nearest to taking the gang, at
// most so many, what they have room for. Only domains that hold the anchors count.
// Hosts not asked yet count as eligible, except in the first: it is what people
// read, so it is asked until it stands.
func (pl *plan) reject(minimum []int64, level, most int) []Rejection {
	open, domains := pl.byShortage(minimum, level), pl.p.Tree.Domains(level)
	list := make([]Rejection, 0)
	nearer := func(a, b Rejection) int {
		return cmp.Or(cmp.Compare(a.missing(), b.missing()), cmp.Compare(a.Domain, b.Domain))
	}
	add := func(rj Rejection) {
		i, _ := slices.BinarySearchFunc(list, rj, nearer)
		list = slices.Insert(list, i, rj)
	}
	asks := slices.ContainsFunc(pl.p.Roles, func(r Role) bool { return r.Eligible != nil })
	asked := -1
	for next := 0; ; {
		// A domain's sums say at least how many pods it is short of.
		for ; next < len(open); next++ {
			o := open[next]
			if len(list) >= most && cmp.Or(
				cmp.Compare(int64(list[most-1].missing()), o.missing), cmp.Compare(list[most-1].Domain, domains[o.domain].ID)) < 0 {
				break
			}
			if next == maxLookedInto {
				pl.roughly = pl.roughly || o.missing < int64(list[0].missing())
				break
			}
			add(pl.rejection(level, o.domain, minimum, false))
		}
		if len(list) == 0 || !asks || list[0].Domain == asked {
			pl.roughly = pl.roughly || slices.ContainsFunc(list, func(rj Rejection) bool { return rj.AtLeast })
			return list[:min(len(list), most)]
		}
		asked = list[0].Domain
		list = slices.Delete(list, 0, 1)
		add(pl.rejection(level, asked-domains[0].ID, minimum, true))
	}
}

// rejectWider tells of each level wider than the required one, up to that of a
// domain that takes the gang, the domain that is nearest to it.
func (pl *plan) rejectWider(minimum []int64, wider *topology.Domain) []Rejection {
	var list []Rejection
	for level := pl.p.Constraint.Required - 1; level >= 0 && (wider == nil || level > wider.Level); level-- {
		if pl.tierOf[level] < pl.tierOf[level+1] {
			list = append(list, pl.reject(minimum, level, 1)...)
		}
	}
	return list
}

// lacking is a domain with how many pods it lacks room for at least.
type lacking struct {
	domain  int // position in its level
	missing int64
}

// byShortage lists the level's domains that hold the anchors, the one that lacks least first.
func (pl *plan) byShortage(minimum []int64, level int) []lacking {
	t := pl.tierOf[level]
	var open []lacking
	for k, d := range pl.p.Tree.Domains(level) {
		if !pl.holdsAnchors(d) {
			continue
		}
		missing := int64(0)
		for r, n := range minimum {
			missing += max(0, n-pl.sum(t, r, k))
		}
		open = append(open, lacking{k, missing})
	}
	slices.SortStableFunc(open, func(a, b lacking) int { return cmp.Compare(a.missing, b.missing) })
	return open
}

func (rj Rejection) missing() int {
	n := 0
	for _, s := range rj.Shortages {
		n += s.Pods
	}
	return n
}

// rejection packs what fits into the level's k-th domain.
func (pl *plan) rejection(level, k int, minimum []int64, ask bool) Rejection {
	t := pl.tierOf[level]
	rj := Rejection{Domain: pl.p.Tree.Domains(level)[k].ID, Room: make([]int, len(minimum))}
	short, certain := pl.most(minimum, t, k, ask)
	rj.AtLeast = !certain
	for r, n := range minimum {
		if ask && short[r] > 0 && pl.kinds[r] != anyKind && !pl.mayUseAny(r, t, k) {
			rj.Barred++
		}
		rj.Room[r] = int(n - short[r])
		if short[r] > 0 {
			s := pl.shortage(r, short[r], t, k)
			if ask && s.Unusable > 0 {
				s.Unusable = pl.unusable(s, t, k)
			}
			if ask && s.Links != nil {
				s.Links = pl.linksLacking(r, t, k, true)
			}
			rj.Shortages = append(rj.Shortages, s)
		}
	}
	return rj
}

// shortage finds the resource for which the role is short in the domain, in
// what the packing just done has left. If hosts that are not eligible would be
// enough, none is: that is told apart, by the exclusions.
func (pl *plan) shortage(role int, pods int64, t, k int) Shortage {
	s := Shortage{Role: role, Pods: int(pods), Links: pl.linksLacking(role, t, k, false)}
	scarcest := pods
	for d, request := range pl.p.Roles[role].Request {
		if request <= 0 {
			continue
		}
		slots, free := pl.supply(role, d, request, t, k)
		if slots < scarcest || slots == scarcest && slots < pods && pl.isDevice[d] {
			scarcest = slots
			s.Resource, s.Amount, s.Unusable = pl.p.Resources[d], times(request, pods), free
		}
	}
	return s
}

// mayEver tells whether the host takes pods of the role when it is empty, as far as
// is known without asking about it as it is: other filters refuse a host without room.
func (pl *plan) mayEver(role, host int) bool {
	switch asked := pl.marks.asked[role][host]; {
	case asked != unasked:
		return asked == eligible
	case pl.p.Roles[role].EligibleEmpty == nil:
		return true
	}
	ok, _ := pl.p.Roles[role].EligibleEmpty(host)
	return ok
}

// mayUseAny tells whether a host of the role's kind in the domain is one that its pods
// may use, so far as a few questions tell.
func (pl *plan) mayUseAny(role, t, k int) bool {
	questions := 0
	for h := range pl.hostsOf(t, []int{k}).all() {
		if pl.isOfKind(h, pl.kinds[role]) {
			if pl.mayEver(role, h) {
				return true
			}
			if questions++; questions > maxLookedInto {
				break
			}
		}
	}
	return false
}

// unusable is what a shortage tells of pieces that are too small, without those on
// hosts that pods of the role may not use: nobody has asked for them, since no pod
// fits there in any case. Of many some are asked; if the pods may use all of these the
// others count too.
func (pl *plan) unusable(s Shortage, t, k int) int64 {
	d, known, barred, questions := slices.Index(pl.p.Resources, s.Resource), total{}, false, 0
	for h := range pl.hostsOf(t, []int{k}).all() {
		left := pl.room.free(h)[d]
		if left <= 0 || !pl.isOfKind(h, pl.kinds[s.Role]) {
			continue
		}
		if questions++; questions > maxLookedInto && !barred {
			return s.Unusable
		} else if questions > maxLookedInto {
			break
		}
		if pl.mayEver(s.Role, h) {
			known.add(left, 1)
		} else {
			barred = true
		}
	}
	return known.amount()
}

// supply is what the room has left of one resource in the domain: how many
// requests of it the hosts would take, each by itself, and how much is free on
// hosts that are not known to be ineligible.
func (pl *plan) supply(role, d int, request int64, t, k int) (slots, amount int64) {
	var total total
	asked := pl.marks.asked[role]
	count := func(free []int64, sign int64, eligible bool) {
		left := max(0, free[d])
		slots += sign * min(left/request, maxSlots)
		if eligible {
			total.add(left, sign)
		}
	}
	hosts := pl.hostsOf(t, []int{k})
	kind := pl.kinds[role]
	if !pl.keep || kind != anyKind || t == len(pl.tiers)-1 || hosts.size() <= int(pl.fewHosts) {
		for h := range hosts.all() {
			if pl.isOfKind(h, kind) {
				count(pl.room.free(h), 1, asked[h] != ineligible)
			}
		}
		return slots, total.amount()
	}
	// The planner's sums, with the hosts that differ from it put right.
	only := Role{Pods: 1, Request: make([]int64, len(pl.resources))}
	only.Request[d] = request
	slots, total = pl.shapeOf(&only, anyKind).sums[t][k], pl.totalOf(d, t, k)
	pl.differing(role, func(h int, free []int64) {
		if hosts.first <= h && h < hosts.last {
			count(pl.free[h], -1, true)
			count(free, 1, asked[h] != ineligible)
		}
	})
	return slots, total.amount()
}

// differing visits the hosts, each once, of which the planner's sums are not what
// the role finds, with what they have left.
func (pl *plan) differing(role int, visit func(h int, free []int64)) {
	for _, h := range pl.room.hosts {
		visit(h, pl.room.free(h))
	}
	for h, change := range pl.assumed {
		if pl.room.row[h] == 0 {
			visit(h, change.Free)
		}
	}
	for _, h := range pl.marks.told[role] {
		if _, assumed := pl.assumed[h]; pl.marks.asked[role][h] == ineligible && pl.room.row[h] == 0 && !assumed {
			visit(h, pl.free[h])
		}
	}
}

// lacksLinks: the host has what a pod of the role asks for, but no links.
func (pl *plan) lacksLinks(role, host int, free []int64) bool {
	return pl.shapes[role].link > 0 && pl.slotsIn(free, role) > 0 && pl.room.slots(role, host) == 0
}
