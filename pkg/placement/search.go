// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"

	"github.com/tutti-project/tutti/pkg/topology"
)

// candidate is a domain that may hold the gang, with what ranks it: less is better.
type candidate struct {
	domain int // position in its tier
	spread int // domains of the preferred level that it takes
	tight  tightness
}

// search finds the best domain within scope for need pods of each role: tier by
// tier from narrow to wide, and in a tier the tightest first.
func (pl *plan) search(need []int64, scope topology.Domain) (fill, bool) {
	if !slices.ContainsFunc(need, func(n int64) bool { return n > 0 }) {
		pl.room.reset()
		return make(fill, len(need)), true
	}
	if len(pl.free) == 0 {
		return nil, false
	}
	required, start := pl.tierOf[pl.p.Constraint.Required], len(pl.tiers)-1
	if pl.p.Constraint.Preferred > 0 {
		start = max(required, pl.tierOf[pl.p.Constraint.Preferred])
	}
	if pl.aim == feasible {
		start = required
	} else if pl.isSingle(need) {
		start = len(pl.tiers) - 1 // one host, whatever is near enough
	}
	for t := start; t >= required; t-- {
		if t == len(pl.tiers)-1 {
			if pl.noHostHolds(need) {
				continue
			}
			search := pl.searchHosts
			if need[pl.lead] == 0 || !pl.inOrder(pl.lead, span{first: scope.First, last: scope.Last}, 0) {
				search = func(need []int64, scope topology.Domain) (fill, bool) { return pl.searchAllHosts(need, scope, 0) }
			}
			if f, ok := search(need, scope); ok {
				return f, true
			}
			continue
		}
		candidates := pl.candidates(need, t, scope)
		if f, ok := pl.placeFirst(need, t, candidates); ok {
			return f, true
		}
	}
	return nil, false
}

// placeFirst puts the gang into the best of the tier's candidates that takes it.
func (pl *plan) placeFirst(need []int64, t int, candidates []candidate) (fill, bool) {
	for i := range candidates {
		switch i {
		case 0: // the first usually does: find it without sorting
			best := 0
			for j := range candidates {
				if compareCandidates(candidates[j], candidates[best]) < 0 {
					best = j
				}
			}
			candidates[0], candidates[best] = candidates[best], candidates[0]
		case 1:
			slices.SortFunc(candidates[1:], compareCandidates)
		}
		if f, ok := pl.place(need, t, candidates[i].domain); ok {
			return f, true
		}
	}
	return nil, false
}

// wider finds the domain that would take the gang if the required level did not
// forbid it. That it finds none is no proof.
func (pl *plan) wider(need []int64) *topology.Domain {
	bounded := pl.bounded
	defer func() { pl.bounded = bounded }()
	for t := pl.tierOf[pl.p.Constraint.Required] - 1; t >= 0; t-- {
		f, ok := pl.placeFirst(need, t, pl.candidates(need, t, pl.whole()))
		for r := range f {
			if ok && len(f[r]) > 0 {
				return &pl.tiers[t].domains[pl.domainAt(t, f[r][0].host)]
			}
		}
	}
	return nil
}

func compareCandidates(a, b candidate) int {
	return cmp.Or(cmp.Compare(a.spread, b.spread), a.tight.compare(b.tight), cmp.Compare(a.domain, b.domain))
}

// candidates lists the tier's domains within scope whose sums hold the gang.
// The list is good until the next one.
func (pl *plan) candidates(need []int64, t int, scope topology.Domain) []candidate {
	preferred := pl.tierOf[pl.p.Constraint.Preferred]
	list := pl.marks.candidates[:0]
	for k, last := pl.domainsIn(t, scope); k < last; k++ {
		d := pl.tiers[t].domains[k]
		if !pl.holdsAnchors(d) || !pl.sumsHold(need, t, k) {
			continue
		}
		c := candidate{domain: k, tight: pl.tightness(t, k)}
		if preferred > t {
			c.spread = pl.spread(need, preferred, pl.within(t, []int{k}, preferred))
		}
		list = append(list, c)
	}
	pl.marks.candidates = list
	return list
}

// noHostHolds is a quick no for a gang that no single host holds.
func (pl *plan) noHostHolds(need []int64) bool {
	for r, n := range need {
		if n > pl.shapes[r].most && pl.assumed == nil {
			return true
		}
	}
	return false
}

func (pl *plan) holdsAnchors(d topology.Domain) bool {
	return pl.anchorFirst > pl.anchorLast || d.First <= pl.anchorFirst && pl.anchorLast < d.Last
}

func (pl *plan) sumsHold(need []int64, t, k int) bool {
	for r, n := range need {
		if pl.sum(t, r, k) < n {
			return false
		}
	}
	return true
}

// someSumsHold says whether there is a domain of the tier whose sums, less what
// hosts have refused, still leave it open.
func (pl *plan) someSumsHold(need []int64, t int) bool {
	for k, d := range pl.tiers[t].domains {
		if pl.holdsAnchors(d) && pl.sumsHold(need, t, k) {
			return true
		}
	}
	return false
}

// spread is how many of the tier's parts the gang needs: exact for one role, a
// lower bound for several.
func (pl *plan) spread(need []int64, t int, parts []int) int {
	most := 0
	sizes := make([]int64, len(parts))
	for r, n := range need {
		for i, k := range parts {
			sizes[i] = pl.sum(t, r, k)
		}
		slices.Sort(sizes)
		count := 0
		for i := len(sizes) - 1; n > 0 && i >= 0; i-- {
			n -= sizes[i]
			count++
		}
		most = max(most, count)
	}
	return most
}

// roomiest orders the tier's domains that hold the anchors by how many of the
// wanted pods they take.
func (pl *plan) roomiest(t int, want []int64) []int {
	tr := &pl.tiers[t]
	missing := make([]int64, len(tr.domains))
	var order []int
	for k, d := range tr.domains {
		if pl.holdsAnchors(d) {
			order = append(order, k)
		}
		for r, n := range want {
			missing[k] += max(0, n-pl.sum(t, r, k))
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(missing[a], missing[b]), cmp.Compare(pl.sum(t, pl.lead, a), pl.sum(t, pl.lead, b)))
	})
	return order
}

// place puts the gang into one domain, if it can. Each round without success
// has excluded a host, or else proves that there is no way.
func (pl *plan) place(need []int64, t, k int) (fill, bool) {
	if pl.sliced(t) {
		return pl.placeSliced(need, t, k)
	}
	for pl.sumsHold(need, t, k) {
		hosts, packed, ok := pl.cover(need, t, k)
		if !ok {
			return nil, false
		}
		f, ok, again := pl.pack(need, hosts, packed)
		if ok || !again {
			return f, ok
		}
	}
	return nil, false
}
