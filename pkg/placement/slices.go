// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import "slices"

// Slices: every n consecutive ranks of a role stand inside one domain of a
// level, the slice level. In that level or below it any packing will do. Above
// it the domains of the slice level are what hosts are elsewhere, and slices
// what pods are: first the gang is split over them, then each is packed. The
// last slice of a role may be short; it is placed first, where it costs no
// room for a whole one.

// portion is what one domain of the slice level is to hold.
type portion struct {
	domain int     // position in its tier
	pods   []int64 // [role]
}

// sliced says whether slices matter in the tier.
func (pl *plan) sliced(t int) bool {
	return pl.p.Constraint.SliceSize > 1 && t < pl.tierOf[pl.p.Constraint.SliceLevel]
}

// placeSliced puts the gang into a domain that is wider than the slice level.
func (pl *plan) placeSliced(need []int64, t, k int) (fill, bool) {
	for pl.sumsHold(need, t, k) {
		before := pl.exclusionCount
		portions := pl.split(need, t, k)
		if portions == nil {
			return nil, false
		}
		if f, ok := pl.packPortions(portions); ok {
			return f, true
		}
		if pl.exclusionCount == before {
			pl.bounded = true // the packing of a portion ran out of steps
			return nil, false
		}
	}
	return nil, false
}

// split divides the gang among the domains of the slice level: quickly among
// the fewest wider domains that the sums demand, quickly among all, exactly.
func (pl *plan) split(need []int64, t, k int) []portion {
	last := pl.tierOf[pl.p.Constraint.SliceLevel]
	all := pl.within(t, []int{k}, last)
	chosen := []int{k}
	for ; t+1 < last; t++ {
		chosen = pl.fewest(need, t+1, pl.within(t, chosen, t+1))
	}
	if parts := pl.within(t, chosen, last); len(parts) < len(all) {
		if portions, missing := pl.splitQuickly(need, parts); missing == nil {
			return portions
		}
	}
	portions, missing := pl.splitQuickly(need, all)
	if missing == nil {
		return portions
	}
	s := pl.newSplitter(all, &pl.limits.steps)
	portions = s.split(need)
	pl.bounded = pl.bounded || s.undecided
	return portions
}

// splitQuickly goes role by role, best fit; missing is nil if all found room.
// For one role it is exact.
func (pl *plan) splitQuickly(need []int64, parts []int) (portions []portion, missing []int64) {
	t, n := pl.tierOf[pl.p.Constraint.SliceLevel], int64(pl.p.Constraint.SliceSize)
	pl.room.reset()
	taken := make(map[int][]int64, len(parts))
	short, ok := make([]int64, len(need)), true
	slots := func(r, k int) int64 {
		if taken[k] == nil {
			return pl.sum(t, r, k)
		}
		s := int64(0)
		for h := range pl.hostsOf(t, []int{k}).all() {
			s += pl.room.slots(r, h)
		}
		return s
	}
	take := func(r, k int, pods int64) {
		if taken[k] == nil {
			taken[k] = make([]int64, len(need))
		}
		taken[k][r] += pods
		pl.room.add(r, pods, pl.hostsOf(t, []int{k}), nil, false)
	}
	for _, r := range pl.order {
		whole, rest := need[r]/n, need[r]%n
		if rest > 0 {
			if k, found := cheapest(parts, n, rest, func(k int) int64 { return slots(r, k) }); found {
				take(r, k, rest)
			} else {
				short[r] += rest
			}
		}
		var keys []key
		for _, k := range parts {
			if s := slots(r, k) / n; s > 0 && whole > 0 {
				keys = append(keys, newKey(1, s, pl.devicesAt(t, k), k))
			}
		}
		short[r] += n * bestFit(keys, whole, func(k int, units int64) bool {
			take(r, k, units*n)
			return true
		})
		ok = ok && short[r] == 0
	}
	for _, k := range parts {
		if taken[k] != nil {
			portions = append(portions, portion{k, taken[k]})
		}
	}
	if ok {
		return portions, nil
	}
	return portions, short
}

// cheapest finds the part in which rest pods cost the least room for whole
// slices of n, the smallest of those.
func cheapest(parts []int, n, rest int64, slots func(int) int64) (best int, found bool) {
	var least [2]int64
	for _, k := range parts {
		s := slots(k)
		if s < rest {
			continue
		}
		cost := [2]int64{s/n - (s-rest)/n, s}
		if !found || slices.Compare(cost[:], least[:]) < 0 {
			best, least, found = k, cost, true
		}
	}
	return best, found
}

// packPortions packs each domain's portion by itself.
func (pl *plan) packPortions(portions []portion) (fill, bool) {
	t := pl.tierOf[pl.p.Constraint.SliceLevel]
	all := make(fill, len(pl.p.Roles))
	for _, portion := range portions {
		if !slices.ContainsFunc(portion.pods, func(n int64) bool { return n > 0 }) {
			continue
		}
		hosts, packed, ok := pl.cover(portion.pods, t, portion.domain)
		if !ok {
			return nil, false
		}
		f, ok, _ := pl.pack(portion.pods, hosts, packed)
		if !ok {
			return nil, false
		}
		for r := range f {
			all[r] = append(all[r], f[r]...)
		}
	}
	return all, true
}

// addSlices grows a sliced gang beyond its minimum, role by role as far as it
// goes. Whole plans are compared, so pods of the minimum may stand elsewhere.
func (pl *plan) addSlices(found fill, need, full []int64, search func([]int64) (fill, bool)) fill {
	need = slices.Clone(need)
	for _, r := range pl.order {
		least, most := need[r], full[r]
		for least < most {
			need[r] = (least + most + 1) / 2
			if f, ok := search(need); ok {
				found, least = f, need[r]
			} else {
				most = need[r] - 1
			}
		}
		need[r] = least
	}
	return found
}

// slicesInOrder moves the pods of a role's short slice behind all others.
func (pl *plan) slicesInOrder(hosts []int) []int {
	n := pl.p.Constraint.SliceSize
	placed := slices.Index(hosts, Unplaced)
	if placed < 0 {
		placed = len(hosts)
	}
	ordered := make([]int, 0, len(hosts))
	var rest []int
	for first := 0; first < placed; {
		last := first
		domain := pl.p.Tree.DomainOf(hosts[first], pl.p.Constraint.SliceLevel)
		for last < placed && pl.p.Tree.DomainOf(hosts[last], pl.p.Constraint.SliceLevel) == domain {
			last++
		}
		whole := (last - first) / n * n
		ordered = append(ordered, hosts[first:first+whole]...)
		rest = append(rest, hosts[first+whole:last]...)
		first = last
	}
	return append(append(ordered, rest...), hosts[placed:]...)
}
