// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"
	"sort"
)

// What a domain that does not take the gang has room for: the most pods of all
// roles at once that any packing puts there.

// maxMostSteps is the limit of it, of one plan: where it is reached, more might fit.
const maxMostSteps = 1 << 20

// most packs as many of the needed pods as the tier's k-th domain takes, and returns
// how many of each role find no room, and whether no packing holds more. With ask
// set all hosts of the packing are eligible. The room is left as packed.
//
// Quick where the packing misses what the sums miss; else one exact packing for
// each time that hosts refuse.
func (pl *plan) most(need []int64, t, k int, ask bool) (short []int64, certain bool) {
	if pl.sliced(t) {
		return pl.mostSliced(need, t, k, ask)
	}
	hosts := pl.hostsOf(t, []int{k})
	for {
		short, _ = pl.room.quickly(need, hosts, nil, ask)
		least := int64(0)
		for r, n := range need {
			least += max(0, n-pl.sum(t, r, k))
		}
		if totalOf(short) == least {
			return short, true
		}
		f, decided := pl.solveMost(need, hosts, &pl.limits.most)
		left := f.lacks(need)
		if f == nil || totalOf(left) >= totalOf(short) {
			return short, decided
		}
		if !ask || pl.mayUseAll(f) {
			pl.room.fillUp(f)
			return left, true
		}
	}
}

// lacks is how many pods of each role are not placed.
func (f fill) lacks(need []int64) []int64 {
	left := slices.Clone(need)
	for r := range f {
		for _, s := range f[r] {
			left[r] -= s.pods
		}
	}
	return left
}

// fillUp has the room take a packing and nothing else.
func (rm *room) fillUp(f fill) {
	rm.reset()
	for r := range f {
		for _, s := range f[r] {
			rm.take(r, s.host, s.pods)
		}
	}
}

// solveMost is solve for as many pods as there is room for; decided is false if it
// ran out of steps.
func (pl *plan) solveMost(need []int64, among span, steps *int) (f fill, decided bool) {
	s := pl.newSum(need, pl.helpers(need, among), steps)
	if s == nil {
		return nil, false
	}
	rows, decided := s.addUp(steps, func([]int32) bool { return false })
	if !decided {
		return nil, false
	}
	last := rows[len(rows)-1]
	best, most := 0, int32(-1)
	for state, big := range last {
		if big < 0 {
			continue
		}
		pods := min(big, s.need)
		for _, n := range s.digits[state*len(s.small) : (state+1)*len(s.small)] {
			pods += n
		}
		if pods > most {
			best, most = state, pods
		}
	}
	return s.trace(rows, len(need), best, min(last[best], s.need)), true
}

// mostSliced is most where slices matter.
func (pl *plan) mostSliced(need []int64, t, k int, ask bool) (short []int64, certain bool) {
	for {
		before := pl.exclusionCount
		portions, short, certain := pl.splitMost(need, pl.within(t, []int{k}, pl.tierOf[pl.p.Constraint.SliceLevel]))
		f, ok := pl.packMost(portions, ask)
		if pl.exclusionCount > before {
			continue
		}
		if ok {
			pl.room.fillUp(f)
		}
		return short, certain && ok
	}
}

// splitMost divides as many pods as there is room for among the parts. What each role
// lacks by itself is the least; then all ways to leave so many pods out are tried,
// until there is one, or the quick split leaves out no more.
func (pl *plan) splitMost(need []int64, parts []int) (portions []portion, short []int64, certain bool) {
	least := make([]int64, len(need))
	for r, n := range need {
		least[r] = n - int64(sort.Search(int(n), func(i int) bool {
			alone := make([]int64, len(need))
			alone[r] = int64(i) + 1
			_, missing := pl.splitQuickly(alone, parts)
			return missing != nil
		}))
	}
	portions, short = pl.splitQuickly(need, parts)
	if short == nil {
		return portions, make([]int64, len(need)), true
	}
	s := pl.newSplitter(parts, &pl.limits.most)
	for out := totalOf(least); out < totalOf(short) && *s.steps >= 0; out++ {
		less, found := make([]int64, len(need)), []portion(nil)
		var leave func(r int, left int64) bool
		leave = func(r int, left int64) bool {
			if r == len(need)-1 {
				less[r] = need[r] - least[r] - left
				if less[r] < 0 {
					return false
				}
				found = s.splitAnyhow(less)
				return found != nil
			}
			for n := int64(0); n <= min(left, need[r]-least[r]) && *s.steps >= 0; n++ {
				if less[r] = need[r] - least[r] - n; leave(r+1, left-n) {
					return true
				}
			}
			return false
		}
		if leave(0, out-totalOf(least)) {
			for r := range short {
				short[r] = need[r] - less[r]
			}
			return found, short, !s.undecided
		}
	}
	return portions, short, !s.undecided
}

// splitAnyhow divides all of the pods, if it can: quickly or exactly.
func (s *splitter) splitAnyhow(need []int64) []portion {
	if !s.spend(lookSteps * s.pl.hostsOf(s.tier, s.parts).size() * len(need)) {
		return nil
	}
	portions, missing := s.pl.splitQuickly(need, s.parts)
	if missing == nil {
		return append(portions, portion{domain: -1, pods: make([]int64, len(need))}) // not nil, even of nothing
	}
	return s.split(need)
}

// packMost packs the portions, with ask set on hosts that are eligible.
func (pl *plan) packMost(portions []portion, ask bool) (fill, bool) {
	t, all := pl.tierOf[pl.p.Constraint.SliceLevel], make(fill, len(pl.p.Roles))
	for _, portion := range portions {
		if totalOf(portion.pods) == 0 {
			continue
		}
		before := pl.exclusionCount
		hosts, f := pl.hostsOf(t, []int{portion.domain}), make(fill, len(portion.pods))
		if _, ok := pl.room.quickly(portion.pods, hosts, f, ask); !ok {
			if pl.exclusionCount > before {
				return nil, false
			}
			if f, _ = pl.solve(portion.pods, hosts, &pl.limits.most); f == nil || ask && !pl.mayUseAll(f) {
				return nil, false
			}
		}
		for r := range f {
			all[r] = append(all[r], f[r]...)
		}
	}
	return all, true
}
