// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

// quickly packs role after role and returns how many pods of each find no room.
// Its "yes" is a packing; its "no" proves nothing when there are several roles.
func (rm *room) quickly(need []int64, hosts span, f fill, ask bool) (missing []int64, ok bool) {
	rm.reset()
	missing, ok = make([]int64, len(need)), true
	for _, r := range rm.pl.order {
		if need[r] == 0 {
			continue
		}
		missing[r] = rm.add(r, need[r], hosts, f, ask)
		if missing[r] > 0 && ok {
			rm.short, ok = r, false
		}
	}
	return missing, ok
}

// fits says whether the hosts hold all roles at once, as far as is known of
// their eligibility. The exact packing may spend at most the given steps.
func (pl *plan) fits(need []int64, hosts span, steps *int) bool {
	if _, ok := pl.room.quickly(need, hosts, nil, false); ok {
		return true
	}
	f, _ := pl.solve(need, hosts, steps)
	return f != nil
}

// pack places the gang on some of the hosts and asks for each that it uses; packed
// is the packing done last, if that is one on these hosts. If it fails, again says
// whether hosts were excluded on the way, so that another choice of hosts may do.
func (pl *plan) pack(need []int64, hosts span, packed fill) (f fill, ok, again bool) {
	before := pl.exclusionCount
	if packed != nil && pl.mayUseAll(packed) {
		return packed, true, false
	}
	f = make(fill, len(need))
	if _, ok = pl.room.quickly(need, hosts, f, true); ok {
		return f, true, false
	}
	if pl.exclusionCount > before {
		return nil, false, true
	}
	if f, _ = pl.solve(need, hosts, &pl.limits.steps); f == nil {
		return nil, false, false
	}
	pl.room.reset()
	for r := range f {
		for _, s := range f[r] {
			if pl.mayUse(r, s.host) {
				pl.room.take(r, s.host, s.pods)
			}
		}
	}
	again = pl.exclusionCount > before
	return f, !again, again
}

// mayUseAll asks for the hosts of a packing until one refuses.
func (pl *plan) mayUseAll(f fill) bool {
	for _, r := range pl.order {
		for _, s := range f[r] {
			if !pl.mayUse(r, s.host) {
				return false
			}
		}
	}
	return true
}
