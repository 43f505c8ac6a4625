// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	"github.com/tutti-project/tutti/pkg/topology"
)

// cover narrows a domain down to the hosts of as few sub-domains as hold the
// gang, level by level, or from the preferred level on if there is one below.
// Where a packing was found on the way it is returned as well; its hosts are still
// to be asked. ok is false if the domain does not hold the gang at all.
func (pl *plan) cover(need []int64, t, k int) (hosts span, packed fill, ok bool) {
	if hosts, packed, ok = pl.coverBySums(need, t, k); ok {
		return hosts, packed, true
	}
	if !pl.holds(need, t, k) {
		return span{}, nil, false
	}
	chosen := []int{k}
	if pl.aim == feasible {
		return pl.hostsOf(t, chosen), nil, true
	}
	for next := pl.firstBelow(t); next < len(pl.tiers)-1; next++ {
		chosen = pl.fewestJointly(need, next, pl.within(t, chosen, next))
		t = next
	}
	return pl.hostsOf(t, chosen), nil, true
}

// firstBelow is the first tier that matters inside the domains of another one.
func (pl *plan) firstBelow(t int) int { return max(t+1, pl.tierOf[pl.p.Constraint.Preferred]) }

// coverBySums takes the sub-domains that the sums demand. If they hold all roles
// at once, and no fewer could, that is what a longer search would find.
func (pl *plan) coverBySums(need []int64, t, k int) (span, fill, bool) {
	chosen := []int{k}
	for next := pl.firstBelow(t); next < len(pl.tiers)-1; next++ {
		parts := pl.within(t, chosen, next)
		chosen = pl.fewest(need, next, parts)
		if severalRoles(need) && len(chosen) > pl.spread(need, next, parts) {
			return span{}, nil, false
		}
		t = next
	}
	hosts, packed := pl.hostsOf(t, chosen), make(fill, len(need))
	_, ok := pl.room.quickly(need, hosts, packed, false)
	return hosts, packed, ok
}

func severalRoles(need []int64) bool {
	roles := 0
	for _, n := range need {
		if n > 0 {
			roles++
		}
	}
	return roles > 1
}

// holds says whether the k-th domain holds all roles at once. The sub-domains
// that the sums demand usually do, and are fewer hosts to look at.
func (pl *plan) holds(need []int64, t, k int) bool {
	if next := t + 1; next < len(pl.tiers)-1 {
		chosen := pl.fewest(need, next, pl.within(t, []int{k}, next))
		if _, ok := pl.room.quickly(need, pl.hostsOf(next, chosen), nil, false); ok {
			return true
		}
	}
	return pl.fits(need, pl.hostsOf(t, []int{k}), &pl.limits.steps)
}

// hostsOf lists the hosts of the tier's chosen domains in tree order; of several
// domains, those with room.
func (pl *plan) hostsOf(t int, chosen []int) span {
	if len(chosen) == 1 {
		d := pl.tiers[t].domains[chosen[0]]
		return span{first: d.First, last: d.Last}
	}
	n := 0
	for _, k := range chosen {
		n += pl.tiers[t].domains[k].Last - pl.tiers[t].domains[k].First
	}
	list := make([]int, 0, n)
	for _, k := range chosen {
		d := pl.tiers[t].domains[k]
		for h := d.First; h < d.Last; h++ {
			if pl.hasSlots(h) {
				list = append(list, h)
			}
		}
	}
	return span{list: list}
}

// hasSlots says whether the empty plan has room on the host for any pod.
func (pl *plan) hasSlots(host int) bool {
	for r := range pl.shapes {
		if pl.slotsOf(r, host) > 0 {
			return true
		}
	}
	return false
}

// within lists the domains of the narrower tier that lie in the chosen ones.
func (pl *plan) within(t int, chosen []int, narrower int) []int {
	n := 0
	for _, k := range chosen {
		first, last := pl.domainsIn(narrower, pl.tiers[t].domains[k])
		n += last - first
	}
	parts := make([]int, 0, n)
	for _, k := range chosen {
		for i, last := pl.domainsIn(narrower, pl.tiers[t].domains[k]); i < last; i++ {
			parts = append(parts, i)
		}
	}
	return parts
}

// domainsIn are the tier's domains that lie in a wider one, from first on and
// before last. A cluster without hosts has none.
func (pl *plan) domainsIn(t int, d topology.Domain) (first, last int) {
	if d.First == d.Last {
		return 0, 0
	}
	return pl.domainAt(t, d.First), pl.domainAt(t, d.Last-1) + 1
}

// fewest chooses, for each role by itself, the fewest parts whose sums hold it:
// exact when there is one role.
func (pl *plan) fewest(need []int64, t int, parts []int) []int {
	tr := &pl.tiers[t]
	in := make(map[int]bool, len(parts))
	for _, r := range pl.order {
		missing := need[r]
		for _, k := range parts {
			if in[k] {
				missing -= pl.sum(t, r, k)
			}
		}
		var keys []key
		for _, k := range parts {
			if s := pl.sum(t, r, k); s > 0 && !in[k] && missing > 0 {
				class := 1
				if tr.anchored != nil && tr.anchored[k] {
					class = 0
				}
				keys = append(keys, newKey(class, s, pl.devicesAt(t, k), k))
			}
		}
		bestFit(keys, missing, func(k int, _ int64) bool {
			in[k] = true
			return true
		})
	}
	return keep(parts, func(k int) bool { return in[k] })
}

func keep(parts []int, wanted func(int) bool) []int {
	return slices.DeleteFunc(slices.Clone(parts), func(k int) bool { return !wanted(k) })
}

// maxTries bounds, per level, the search for the fewest sub-domains: a choice
// counts for one, and for each of its hosts if they have to be packed.
const maxTries = 1 << 14

// fewestJointly chooses the fewest parts that hold all roles at once, given
// that all of them together do. It adds to what the sums demand until the roles
// fit jointly, drops what is not needed, and tries all smaller choices, as long
// as they are few: with many parts it may end with more than the fewest.
func (pl *plan) fewestJointly(need []int64, t int, parts []int) []int {
	tr := &pl.tiers[t]
	chosen := pl.fewest(need, t, parts)
	least := pl.spread(need, t, parts)
	for more := 1; len(chosen) < len(parts) && !pl.fits(need, pl.hostsOf(t, chosen), &pl.limits.cover); more *= 2 {
		// Add those with the most room for the role that came short.
		var keys []key
		for _, k := range parts {
			if _, in := slices.BinarySearch(chosen, k); !in {
				keys = append(keys, newKey(0, pl.sum(t, pl.room.short, k), pl.devicesAt(t, k), k))
			}
		}
		slices.Sort(keys)
		for _, k := range keys[:min(more, len(keys))] {
			chosen = append(chosen, k.domain())
		}
		slices.Sort(chosen)
	}
	for i := len(chosen) - 1; i >= 0 && len(chosen) > least && pl.limits.cover > 0; i-- {
		fewer := slices.Delete(slices.Clone(chosen), i, i+1)
		pl.limits.cover -= len(fewer)
		if !pl.partsHold(need, t, fewer) {
			continue
		}
		hosts := pl.hostsOf(t, fewer)
		pl.limits.cover -= hosts.size()
		if pl.fits(need, hosts, &pl.limits.cover) {
			chosen = fewer
		}
	}
	if tr.anchored == nil {
		for tries, size := maxTries, least; size < len(chosen) && tries > 0; size++ {
			if fewer := pl.choose(need, t, parts, size, &tries); fewer != nil {
				return fewer
			}
		}
	}
	return chosen
}

// choose finds the first choice of so many parts, in tree order, that holds all
// roles at once; nil if there is none or the tries are used up.
func (pl *plan) choose(need []int64, t int, parts []int, size int, tries *int) []int {
	var chosen []int
	var extend func(from int) bool
	extend = func(from int) bool {
		if len(chosen) == size {
			*tries--
			if !pl.partsHold(need, t, chosen) {
				return false
			}
			hosts := pl.hostsOf(t, chosen)
			*tries -= hosts.size()
			pl.limits.cover -= hosts.size()
			return pl.fits(need, hosts, &pl.limits.cover)
		}
		for i := from; i <= len(parts)-size+len(chosen) && *tries > 0 && pl.limits.cover > 0; i++ {
			chosen = append(chosen, parts[i])
			if extend(i + 1) {
				return true
			}
			chosen = chosen[:len(chosen)-1]
		}
		return false
	}
	if extend(0) {
		return chosen
	}
	return nil
}

// partsHold says whether the parts' sums hold each role by itself.
func (pl *plan) partsHold(need []int64, t int, parts []int) bool {
	for r, n := range need {
		for _, k := range parts {
			n -= pl.sum(t, r, k)
		}
		if n > 0 {
			return false
		}
	}
	return true
}
