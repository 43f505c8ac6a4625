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
	devices := min(pl.devicesAt(t, k), maxRank)
	if t == len(pl.tiers)-1 {
		devices = pl.rankOf(pl.lead, k)
	}
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

// party is hosts of one domain, of the tier above theirs, that are equal but for
// what is around them.
type party struct {
	domain topology.Domain
	hosts  []int       // nil if they are still to be found
	around []tightness // of the domain and those that it is in, outwards
}

func compareParties(a, b party) int {
	return cmp.Or(slices.CompareFunc(a.around, b.around, tightness.compare), cmp.Compare(a.domain.First, b.domain.First))
}

// placeOnOne puts the gang on a host of one of the parties: it breaks into the
// tightest domain, so that others stay whole. find lists the hosts of a domain
// where the party does not.
func (pl *plan) placeOnOne(need []int64, parties []party, find func(topology.Domain) []int) (fill, bool) {
	pl.lookAround(parties)
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
		hosts := parties[i].hosts
		if hosts == nil {
			hosts = find(parties[i].domain)
		}
		for _, h := range hosts {
			if f, ok := pl.place(need, len(pl.tiers)-1, h); ok {
				return f, true
			}
		}
	}
	return nil, false
}

// parties cuts equal hosts, given in tree order, by domain.
func (pl *plan) parties(hosts []int) []party {
	above := len(pl.tiers) - 2
	if above < 1 { // nothing tells them apart
		return []party{{hosts: hosts}}
	}
	var parties []party
	for first := 0; first < len(hosts); {
		d := pl.tiers[above].domains[pl.domainAt(above, hosts[first])]
		last := first + 1
		for last < len(hosts) && hosts[last] < d.Last {
			last++
		}
		parties = append(parties, party{domain: d, hosts: hosts[first:last]})
		first = last
	}
	return parties
}

func (pl *plan) lookAround(parties []party) {
	if len(parties) < 2 {
		return
	}
	above := len(pl.tiers) - 2
	around := make([]tightness, 0, len(parties)*above)
	for i := range parties {
		begin := len(around)
		for t := above; t > 0; t-- { // the cluster is around them all
			around = append(around, pl.tightness(t, pl.domainAt(t, parties[i].domain.First)))
		}
		parties[i].around = around[begin:len(around):len(around)]
	}
}

// maxEqual bounds how many equal hosts are listed; of more, the domains are
// ranked first and their hosts looked for in that order.
const maxEqual = 128

// searchHosts is the search in the tier of hosts, along the planner's order.
// Pods without devices prefer hosts with few of them, an order that is kept
// only for hosts with none; where these do not do, all others are compared.
func (pl *plan) searchHosts(need []int64, scope topology.Domain) (fill, bool) {
	if pl.anchorFirst <= pl.anchorLast {
		return pl.searchAllHosts(need, scope, 0)
	}
	holds := func(h int) bool {
		return scope.First <= h && h < scope.Last && pl.sumsHold(need, len(pl.tiers)-1, h)
	}
	shape := pl.shapes[pl.lead]
	p, ok := shape.order.fits(classPlain, max(need[pl.lead], 1))
	for ok {
		k, _ := shape.order.at(p)
		parties, behind := pl.equalTo(k, p, holds)
		f, placed := pl.placeOnOne(need, parties, func(d topology.Domain) []int {
			var hosts []int
			for h := d.First; h < d.Last; h++ {
				if shape.keys[h].equals(k) && holds(h) {
					hosts = append(hosts, h)
				}
			}
			return hosts
		})
		if placed {
			return f, true
		}
		p = behind
		if next, more := shape.order.at(p); !more || next.class() != k.class() || next.slots() != k.slots() {
			p, ok = shape.order.fits(classPlain, k.slots()+1)
		}
	}
	if pl.shapes[pl.lead].device {
		return nil, false
	}
	return pl.searchAllHosts(need, scope, 1)
}

// equalTo lists the hosts with the slots and devices of k, which are a stretch of
// the order from p on, and returns the place behind them. Without domains around
// them, one at a time will do.
func (pl *plan) equalTo(k key, p place, holds func(int) bool) ([]party, place) {
	order := pl.shapes[pl.lead].order
	var equal []int
	for next, ok := k, true; ok && next.equals(k); next, ok = order.at(p) {
		if len(equal) > maxEqual {
			return pl.allParties(), order.seek((k | maxDomains) + 1)
		}
		if len(equal) > 0 && len(pl.tiers) == 2 {
			break
		}
		if h := next.domain(); holds(h) {
			equal = append(equal, h)
		}
		p = order.next(p)
	}
	return pl.parties(equal), p
}

// searchAllHosts compares all hosts of the scope that have so many devices. O(hosts)
// if one of the tightest will do, else O(hosts log hosts).
func (pl *plan) searchAllHosts(need []int64, scope topology.Domain, devices int64) (fill, bool) {
	list := slices.DeleteFunc(pl.candidates(need, len(pl.tiers)-1, scope), func(c candidate) bool { return pl.devicesOn(c.domain) < devices })
	if len(list) == 0 {
		return nil, false
	}
	best := slices.MinFunc(list, compareCandidates).tight
	var equal []int
	list = slices.DeleteFunc(list, func(c candidate) bool {
		if c.tight == best {
			equal = append(equal, c.domain)
		}
		return c.tight == best
	})
	if f, ok := pl.placeOnOne(need, pl.parties(equal), nil); ok {
		return f, true
	}
	list = slices.Clone(list) // its memory is lent, and asked for again
	slices.SortFunc(list, compareCandidates)
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n].tight == list[0].tight {
			n++
		}
		equal = equal[:0]
		for _, c := range list[:n] {
			equal = append(equal, c.domain)
		}
		if f, ok := pl.placeOnOne(need, pl.parties(equal), nil); ok {
			return f, true
		}
		list = list[n:]
	}
	return nil, false
}

// allParties is one of every domain above the hosts, which are still to be found.
func (pl *plan) allParties() []party {
	above := pl.tiers[len(pl.tiers)-2]
	parties := make([]party, len(above.domains))
	for k, d := range above.domains {
		parties[k].domain = d
	}
	return parties
}
