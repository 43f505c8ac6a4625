// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"

	"github.com/tutti-project/tutti/pkg/topology"
)

// tightness ranks domains that hold the gang alike: less is better. What is free
// counts, and twice the number of hosts: a large domain is worth keeping whole,
// even while it is not, for it is the only one that will ever hold a large gang.
// Where domains are of one size that is best fit. The weight is what simulated
// traces of months wanted; half or twice as much is nearly as good.
//
// A gang without devices first of all keeps away from those of others.
type tightness [2]int64

func (pl *plan) tightness(t, k int) tightness {
	d := pl.tiers[t].domains[k]
	room := pl.sum(t, pl.lead, k) + 2*int64(d.Last-d.First)
	devices := min(pl.devicesAt(t, k), maxDevices)
	if !pl.shapes[pl.lead].device {
		return tightness{devices, room}
	}
	return tightness{room, devices}
}

func (a tightness) compare(b tightness) int {
	return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
}

// isSingle says whether the gang is one pod, which has nothing to be near to.
func (pl *plan) isSingle(need []int64) bool {
	pods := int64(0)
	for _, n := range need {
		pods += n
	}
	return pods == 1 && pl.anchorFirst > pl.anchorLast
}

// party is the hosts of one domain, of the tier above theirs, that are equal but
// for what is around them.
type party struct {
	hosts  []int
	around []tightness // of the domain and those that it is in, outwards
}

func compareParties(a, b party) int {
	return cmp.Or(slices.CompareFunc(a.around, b.around, tightness.compare), cmp.Compare(a.hosts[0], b.hosts[0]))
}

// placeOnOne puts the gang on one of equal hosts, given in tree order: it breaks
// into the tightest domain, so that others stay whole.
func (pl *plan) placeOnOne(need []int64, hosts []int) (fill, bool) {
	parties := pl.parties(hosts)
	for i := range parties {
		switch i {
		case 0:
			best := 0
			for j := range parties {
				if compareParties(parties[j], parties[best]) < 0 {
					best = j
				}
			}
			parties[0], parties[best] = parties[best], parties[0]
		case 1:
			slices.SortFunc(parties[1:], compareParties)
		}
		for _, h := range parties[i].hosts {
			if f, ok := pl.place(need, len(pl.tiers)-1, h); ok {
				return f, true
			}
		}
	}
	return nil, false
}

func (pl *plan) parties(hosts []int) []party {
	var parties []party
	above := len(pl.tiers) - 2
	if above < 1 && len(hosts) > 0 {
		return append(parties, party{hosts: hosts})
	}
	for first := 0; first < len(hosts); {
		k := pl.domainAt(above, hosts[first])
		last := first + 1
		for last < len(hosts) && pl.tiers[above].domains[k].Last > hosts[last] {
			last++
		}
		parties = append(parties, party{hosts: hosts[first:last]})
		first = last
	}
	if len(parties) < 2 {
		return parties
	}
	// The cluster is around them all.
	around := make([]tightness, 0, len(parties)*above)
	for i := range parties {
		begin := len(around)
		for t := above; t > 0; t-- {
			around = append(around, pl.tightness(t, pl.domainAt(t, parties[i].hosts[0])))
		}
		parties[i].around = around[begin:len(around):len(around)]
	}
	return parties
}

// searchHosts is the search in the tier of hosts, along the planner's order.
// Pods without devices prefer hosts with few of them, an order that is kept
// only for hosts with none; where these do not do, all others are compared.
func (pl *plan) searchHosts(need []int64, scope topology.Domain) (fill, bool) {
	if pl.anchorFirst <= pl.anchorLast {
		return pl.searchAllHosts(need, scope, 0)
	}
	order := pl.shapes[pl.lead].order
	p, ok := order.fits(classPlain, max(need[pl.lead], 1))
	for ok {
		// Hosts with equal slots and devices are a stretch of the order; without
		// domains around them, one at a time will do.
		k, _ := order.at(p)
		var equal []int
		next := k
		for ; ok && next>>21 == k>>21 && (len(equal) == 0 || len(pl.tiers) > 2); next, ok = order.at(p) {
			if h := next.domain(); scope.First <= h && h < scope.Last && pl.sumsHold(need, len(pl.tiers)-1, h) {
				equal = append(equal, h)
			}
			p = order.next(p)
		}
		if f, ok := pl.placeOnOne(need, equal); ok {
			return f, true
		}
		if !ok || next.class() != k.class() || next.slots() != k.slots() {
			p, ok = order.fits(classPlain, k.slots()+1)
		}
	}
	if pl.shapes[pl.lead].device {
		return nil, false
	}
	return pl.searchAllHosts(need, scope, 1)
}

// searchAllHosts compares all hosts of the scope that have so many devices.
func (pl *plan) searchAllHosts(need []int64, scope topology.Domain, devices int64) (fill, bool) {
	list := slices.DeleteFunc(pl.candidates(need, len(pl.tiers)-1, scope), func(c candidate) bool { return pl.devicesOn(c.domain) < devices })
	for len(list) > 0 {
		best := list[0].tight
		for _, c := range list {
			if c.tight.compare(best) < 0 {
				best = c.tight
			}
		}
		var equal []int
		list = slices.DeleteFunc(list, func(c candidate) bool {
			if c.tight == best {
				equal = append(equal, c.domain)
			}
			return c.tight == best
		})
		if f, ok := pl.placeOnOne(need, equal); ok {
			return f, true
		}
	}
	return nil, false
}
