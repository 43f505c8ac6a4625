// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"

	"github.com/tutti-project/tutti/pkg/topology"
)

// Best fit comes near to the best placement. Where the domain that was found is
// small, a search finishes the work: it tries all placements in it, cuts off what
// cannot be better, and stops after so many steps. Gangs of few pods end up with
// the best placement there is, by the objective (objective.go).

const (
	maxRefinedHosts = 64 // of the domain
	maxRefineSteps  = 1 << 9
)

// refine improves a placement. New hosts are asked for when a better one uses them.
func (pl *plan) refine(f fill, full, minimum []int64) fill {
	s := pl.newRefiner(f, full, minimum)
	if s == nil || pl.isAsGoodAsAny(s, full) {
		return f
	}
	s.put(0, 0, 0)
	if s.improved == nil {
		return f
	}
	better := make(fill, len(f))
	for r, counts := range s.improved {
		for i, n := range counts {
			if n > 0 {
				better[r] = append(better[r], share{s.hosts[i], n})
			}
		}
	}
	return better
}

// isAsGoodAsAny is a quick look at what no placement can be better in.
func (pl *plan) isAsGoodAsAny(s *refiner, full []int64) bool {
	if s.best.unplaced() > 0 || s.serves && s.works {
		return false
	}
	for t := max(1, pl.tierOf[pl.p.Constraint.Preferred]); t < len(pl.tiers); t++ {
		first, last := pl.domainAt(t, s.hosts[0]), pl.domainAt(t, s.hosts[len(s.hosts)-1])
		parts := make([]int, 0, last-first+1)
		for k := first; k <= last; k++ {
			parts = append(parts, k)
		}
		if s.spread[t] > int64(pl.spread(full, t, parts)) {
			return false
		}
	}
	return s.best.strangers() == 0
}

// refiner is the state of the search: pods are put on the hosts one by one, role
// by role, those of a role in the order of the hosts.
type refiner struct {
	*tally
	least, most []int64 // [role] pods to place
	best        objective
	improved    [][]int64 // [role][host] the best placement, if it is not the first
	spread      []int64   // [tier] domains that the first one uses
	now         objective
	alike       []bool // [host] is as the one before it
	steps       int
}

// newRefiner returns nil where there is nothing to refine.
func (pl *plan) newRefiner(f fill, full, minimum []int64) *refiner {
	first, last := pl.anchorFirst, pl.anchorLast
	pods, missing := totalOf(full), totalOf(full)
	for _, shares := range f {
		for _, sh := range shares {
			first, last = min(first, sh.host), max(last, sh.host)
			missing -= sh.pods
		}
	}
	if first > last || pods > maxRefineSteps/8 {
		return nil
	}
	t, required := len(pl.tiers)-1, pl.tierOf[pl.p.Constraint.Required]
	for last >= pl.around(t, first).Last || missing > 0 && t > required {
		t--
	}
	d := pl.around(t, first)
	if t == len(pl.tiers)-1 || d.Last-d.First > maxRefinedHosts {
		return nil
	}
	hosts := make([]int, 0, maxRefinedHosts)
	for h := d.First; h < d.Last; h++ {
		hosts = append(hosts, h)
	}
	s := &refiner{tally: newTally(pl, hosts, full), least: minimum, most: full, steps: maxRefineSteps}
	if missing == 0 {
		s.least = full
	}
	s.judge(f, missing)
	s.findAlike()
	return s
}

// judge takes the placement for the best so far.
func (s *refiner) judge(f fill, missing int64) {
	each := func(do func(role, host int)) {
		for r, shares := range f {
			for _, sh := range shares {
				for range sh.pods {
					do(r, sh.host-s.hosts[0])
				}
			}
		}
	}
	each(s.add)
	s.missing = missing
	s.best = s.value(nil)
	s.spread = slices.Clone(s.distinct)
	s.missing = 0
	each(s.remove)
}

func (s *refiner) findAlike() {
	last := len(s.at) - 1
	anchored := s.pl.tiers[last].anchored
	s.alike = make([]bool, len(s.hosts))
	for i := 1; i < len(s.hosts); i++ {
		a, b := s.hosts[i-1], s.hosts[i]
		s.alike[i] = s.at[last-1][i] == s.at[last-1][i-1] && s.pl.alike(a, b) && !anchored[a] && !anchored[b]
	}
}

// put tries all hosts from the given one on for the next pod of the i-th role, of
// which n are placed.
func (s *refiner) put(i int, n int64, from int) {
	if i == len(s.pl.order) {
		s.offer()
		return
	}
	r := s.pl.order[i]
	if n == s.most[r] {
		s.nextRole(i)
		return
	}
	for h := from; h < len(s.hosts) && s.steps > 0; h++ {
		if s.pl.slotsOf(r, s.hosts[h]) == 0 || !s.hasRoom(r, h) || s.alike[h] && s.isUnused(h-1) && s.isUnused(h) {
			continue
		}
		s.steps--
		s.add(r, h)
		if s.mayBeBetter() {
			s.put(i, n+1, h)
		}
		s.remove(r, h)
	}
	if n >= s.least[r] {
		s.missing += s.most[r] - n
		if s.mayBeBetter() {
			s.nextRole(i)
		}
		s.missing -= s.most[r] - n
	}
}

// around is the tier's domain that the host is in.
func (pl *plan) around(t, host int) topology.Domain { return pl.tiers[t].domains[pl.domainAt(t, host)] }

func (s *refiner) nextRole(i int) {
	if s.keepsSlices(s.pl.order[i]) {
		s.put(i+1, 0, 0)
	}
}

// mayBeBetter compares what more pods only make worse.
func (s *refiner) mayBeBetter() bool {
	if c := cmp.Compare(s.missing, s.best.unplaced()); c != 0 {
		return c < 0
	}
	s.now = s.spreadOut(append(s.now[:0], s.missing))
	if c := slices.Compare(s.now, s.best[:len(s.now)]); c != 0 {
		return c < 0
	}
	for _, n := range s.best[len(s.now) : len(s.best)-2] {
		if n > 0 {
			return true
		}
	}
	c := cmp.Compare(s.distinct[len(s.distinct)-1], s.best.hosts())
	return c < 0 || c == 0 && s.best[len(s.best)-1] > 0
}

// offer takes a finished placement if it is better and all its hosts are eligible.
func (s *refiner) offer() {
	s.now = s.value(s.now[:0])
	if slices.Compare(s.now, s.best) >= 0 {
		return
	}
	for r, counts := range s.count {
		for h, n := range counts {
			if n > 0 && !s.pl.mayUse(r, s.hosts[h]) {
				s.alike[h] = false
				if h+1 < len(s.alike) {
					s.alike[h+1] = false
				}
				return
			}
		}
	}
	s.best = append(s.best[:0], s.now...)
	s.improved = s.improved[:0]
	for _, counts := range s.count {
		s.improved = append(s.improved, slices.Clone(counts))
	}
}
