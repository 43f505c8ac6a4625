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
	tight  [2]int64
}

// search finds the best domain within scope for need pods of each role: tier by
// tier from narrow to wide, and in a tier the tightest first.
func (pl *planner) search(need []int64, scope topology.Domain) (fill, bool) {
	if !slices.ContainsFunc(need, func(n int64) bool { return n > 0 }) {
		pl.room.reset()
		return make(fill, len(need)), true
	}
	required, start := pl.tierOf[pl.p.Constraint.Required], len(pl.tiers)-1
	if pl.p.Constraint.Preferred > 0 {
		start = max(required, pl.tierOf[pl.p.Constraint.Preferred])
	}
	for t := start; t >= required; t-- {
		candidates := pl.candidates(need, t, scope)
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
	}
	return nil, false
}

func compareCandidates(a, b candidate) int {
	return cmp.Or(cmp.Compare(a.spread, b.spread), cmp.Compare(a.tight[0], b.tight[0]),
		cmp.Compare(a.tight[1], b.tight[1]), cmp.Compare(a.domain, b.domain))
}

// candidates lists the tier's domains within scope whose sums hold the gang.
func (pl *planner) candidates(need []int64, t int, scope topology.Domain) []candidate {
	tr := &pl.tiers[t]
	preferred := pl.tierOf[pl.p.Constraint.Preferred]
	var list []candidate
	for k, d := range tr.domains {
		if d.First < scope.First || d.Last > scope.Last || !pl.holdsAnchors(d) || !pl.sumsHold(need, t, k) {
			continue
		}
		c := candidate{domain: k, tight: [2]int64{tr.slots[pl.lead][k] - need[pl.lead], tr.devices[k]}}
		if !pl.usesDevices(pl.lead) {
			// A gang without devices keeps away from those of others.
			c.tight[0], c.tight[1] = c.tight[1], c.tight[0]
		}
		if preferred > t {
			c.spread = pl.spread(need, preferred, pl.within(t, []int{k}, preferred))
		}
		list = append(list, c)
	}
	return list
}

func (pl *planner) holdsAnchors(d topology.Domain) bool {
	return pl.anchorFirst > pl.anchorLast || d.First <= pl.anchorFirst && pl.anchorLast < d.Last
}

func (pl *planner) sumsHold(need []int64, t, k int) bool {
	for r, n := range need {
		if pl.tiers[t].slots[r][k] < n {
			return false
		}
	}
	return true
}

// spread is how many of the tier's parts the gang needs: exact for one role, a
// lower bound for several.
func (pl *planner) spread(need []int64, t int, parts []int) int {
	most := 0
	sizes := make([]int64, len(parts))
	for r, n := range need {
		for i, k := range parts {
			sizes[i] = pl.tiers[t].slots[r][k]
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
func (pl *planner) roomiest(t int, want []int64) []int {
	tr := &pl.tiers[t]
	missing := make([]int64, len(tr.domains))
	var order []int
	for k, d := range tr.domains {
		if pl.holdsAnchors(d) {
			order = append(order, k)
		}
		for r, n := range want {
			missing[k] += max(0, n-tr.slots[r][k])
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(missing[a], missing[b]), cmp.Compare(tr.slots[pl.lead][a], tr.slots[pl.lead][b]))
	})
	return order
}

// place puts the gang into one domain, if it can. Each round without success
// has excluded a host, or else proves that there is no way.
func (pl *planner) place(need []int64, t, k int) (fill, bool) {
	for pl.sumsHold(need, t, k) {
		hosts, ok := pl.cover(need, t, k)
		if !ok {
			return nil, false
		}
		f, ok, again := pl.pack(need, hosts)
		if ok || !again {
			return f, ok
		}
	}
	return nil, false
}
