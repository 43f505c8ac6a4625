// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import "slices"

// cover narrows a domain down to the hosts of as few sub-domains as hold the
// gang, level by level, or from the preferred level on if there is one below.
// It returns false if the domain does not hold the gang at all.
func (pl *planner) cover(need []int64, t, k int) ([]int, bool) {
	roles := 0
	for _, n := range need {
		if n > 0 {
			roles++
		}
	}
	chosen := []int{k}
	if roles > 1 && !pl.fits(need, pl.hostsOf(t, chosen), &pl.steps) {
		return nil, false
	}
	next := t + 1
	if preferred := pl.tierOf[pl.p.Constraint.Preferred]; preferred > next {
		next = preferred
	}
	for ; next < len(pl.tiers)-1; next++ {
		parts := pl.within(t, chosen, next)
		if roles == 1 {
			chosen = pl.fewest(need, next, parts)
		} else {
			chosen = pl.fewestJointly(need, next, parts)
		}
		t = next
	}
	return pl.hostsOf(t, chosen), true
}

// hostsOf lists the hosts of the tier's chosen domains in tree order.
func (pl *planner) hostsOf(t int, chosen []int) []int {
	return pl.within(t, chosen, len(pl.tiers)-1)
}

// within lists the domains of the narrower tier that lie in the chosen ones.
func (pl *planner) within(t int, chosen []int, narrower int) []int {
	var parts []int
	for _, k := range chosen {
		d := pl.tiers[t].domains[k]
		for i := pl.domainAt(narrower, d.First); i <= pl.domainAt(narrower, d.Last-1); i++ {
			parts = append(parts, i)
		}
	}
	return parts
}

// fewest chooses, for each role by itself, the fewest parts whose sums hold it:
// exact when there is one role.
func (pl *planner) fewest(need []int64, t int, parts []int) []int {
	tr := &pl.tiers[t]
	in := make(map[int]bool, len(parts))
	for _, r := range pl.order {
		missing := need[r]
		for _, k := range parts {
			if in[k] {
				missing -= tr.slots[r][k]
			}
		}
		var keys []key
		for _, k := range parts {
			if s := tr.slots[r][k]; s > 0 && !in[k] && missing > 0 {
				class := 1
				if tr.anchored != nil && tr.anchored[k] {
					class = 0
				}
				keys = append(keys, newKey(class, s, tr.devices[k], k))
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

// fewestJointly chooses few parts that hold all roles at once, given that all
// of them together do. It adds to what the sums demand until the roles fit
// jointly, then drops what is not needed. The result always fits; that it is
// the fewest is not promised.
func (pl *planner) fewestJointly(need []int64, t int, parts []int) []int {
	tr := &pl.tiers[t]
	chosen := pl.fewest(need, t, parts)
	least := len(chosen)
	for more := 1; len(chosen) < len(parts) && !pl.fits(need, pl.hostsOf(t, chosen), &pl.coverSteps); more *= 2 {
		// Add those with the most room for the role that came short.
		var keys []key
		for _, k := range parts {
			if _, in := slices.BinarySearch(chosen, k); !in {
				keys = append(keys, newKey(0, tr.slots[pl.room.short][k], tr.devices[k], k))
			}
		}
		slices.Sort(keys)
		for _, k := range keys[:min(more, len(keys))] {
			chosen = append(chosen, k.domain())
		}
		slices.Sort(chosen)
	}
	for i := len(chosen) - 1; i >= 0 && len(chosen) > least; i-- {
		fewer := slices.Delete(slices.Clone(chosen), i, i+1)
		if pl.fits(need, pl.hostsOf(t, fewer), &pl.coverSteps) {
			chosen = fewer
		}
	}
	return chosen
}

// key orders domains by preference, packed so that sorting thousands is cheap:
// class, then most slots, then fewest devices, then tree order.
//
//	63..61 class   60..37 maxSlots-slots   36..21 devices   20..0 domain
type key uint64

const (
	maxSlots   = 1<<24 - 1 // beyond the pods of any gang
	maxDevices = 1<<16 - 1
	maxDomains = 1<<21 - 1
)

func newKey(class int, slots, devices int64, domain int) key {
	return key(class)<<61 | key(maxSlots-min(slots, maxSlots))<<37 | key(min(devices, maxDevices))<<21 | key(domain)
}

func (k key) class() int   { return int(k >> 61) }
func (k key) slots() int64 { return maxSlots - int64(k>>37&maxSlots) }
func (k key) domain() int  { return int(k & maxDomains) }

// bestFit takes need slots from as few domains as possible, class by class: the
// largest as a whole, and at last the smallest that is enough. take may refuse
// a domain; then the next best is offered. It returns what is still missing.
func bestFit(keys []key, need int64, take func(domain int, slots int64) bool) int64 {
	slices.Sort(keys)
	for need > 0 && len(keys) > 0 {
		if keys[0].slots() < need {
			if take(keys[0].domain(), keys[0].slots()) {
				need -= keys[0].slots()
			}
			keys = keys[1:]
			continue
		}
		// The first is enough: offer all those of its class with the least
		// slots that still are.
		last := len(keys)
		for last > 0 && (keys[last-1].class() != keys[0].class() || keys[last-1].slots() < need) {
			last--
		}
		first := last - 1
		for first > 0 && keys[first-1].slots() == keys[last-1].slots() {
			first--
		}
		for _, k := range keys[first:last] {
			if take(k.domain(), need) {
				return 0
			}
		}
		keys = slices.Delete(keys, first, last)
	}
	return need
}
