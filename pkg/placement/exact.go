// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import "slices"

// solve decides whether the hosts hold all roles at once, and how. It returns a
// nil fill if they do not; decided is false if it ran out of steps instead.
//
// What one host can take is a small staircase: for each number of pods of all
// roles but the largest (an option) the most pods of the largest that fit
// beside them. Host after host the staircases are added up:
//
//	most[i][s] = max over options o <= s of most[i-1][s-o] + beside(o)
//
// where a state s counts the pods placed so far, of all roles but the largest.
// That takes hosts x states x options x roles steps, where states is the product of
// (pods+1) over those roles and a host has no more options than states.
func (pl *plan) solve(need []int64, among span, steps *int) (f fill, decided bool) {
	s := pl.newSum(need, pl.helpers(need, among), steps)
	if s == nil {
		return nil, pl.giveUp(steps)
	}
	if s.hopeless(need) {
		return nil, true
	}
	rows, decided := s.addUp(steps, func(last []int32) bool { return last[s.states-1] >= s.need })
	switch {
	case !decided:
		return nil, pl.giveUp(steps)
	case rows[len(rows)-1][s.states-1] < s.need:
		return nil, true
	}
	return s.trace(rows, len(need), s.states-1, s.need), true
}

// helpers are the hosts that take a pod of any role.
func (pl *plan) helpers(need []int64, among span) (hosts []int) {
	for h := range among.all() {
		if pl.helps(need, h) {
			hosts = append(hosts, h)
		}
	}
	return hosts
}

// helps says whether the host takes a pod of any role.
func (pl *plan) helps(need []int64, host int) bool {
	for r, n := range need {
		if n > 0 && pl.slotsOf(r, host) > 0 {
			return true
		}
	}
	return false
}

// giveUp notes that a domain was left undecided.
func (pl *plan) giveUp(steps *int) bool {
	if steps == &pl.limits.steps {
		pl.bounded = true
	}
	return false
}

// sum adds up the staircases of hosts.
type sum struct {
	big    int     // the role with most pods
	need   int32   // of the largest role
	small  []int   // the other roles
	limit  []int32 // [small] pods needed
	weight []int   // [small] what one pod adds to a state's number
	states int
	digits []int32 // [state][small] the state's counts

	hosts  []int
	stairs []*staircase // [host in hosts]; alike hosts share one
}

// newSum returns nil if there are too many states, or too few steps left to list
// them and the options of every host.
func (pl *plan) newSum(need []int64, hosts []int, steps *int) *sum {
	s := &sum{big: pl.lead, states: 1, hosts: hosts}
	for r, n := range need {
		if n > need[s.big] {
			s.big = r
		}
	}
	for r, n := range need {
		if n == 0 || r == s.big {
			continue
		}
		if n >= maxStates || s.states > maxStates/int(n+1)/(len(hosts)+1) {
			return nil
		}
		s.small = append(s.small, r)
		s.limit = append(s.limit, int32(n))
		s.weight = append(s.weight, s.states)
		s.states *= int(n + 1)
	}
	s.need = int32(need[s.big])
	if *steps -= s.states*len(s.small) + len(hosts); *steps < 0 {
		return nil
	}
	s.digits = make([]int32, 0, s.states*len(s.small))
	for state := range s.states {
		for i, w := range s.weight {
			s.digits = append(s.digits, int32(state/w)%(s.limit[i]+1))
		}
	}
	if !s.addStairs(pl, steps) {
		return nil
	}
	return s
}

// addStairs lists what every host can take; false if the steps do not suffice.
func (s *sum) addStairs(pl *plan, steps *int) bool {
	s.stairs = make([]*staircase, len(s.hosts))
	for i, h := range s.hosts {
		// Clusters have few kinds of hosts: look back a little for one alike.
		for j := i - 1; j >= max(0, i-4) && s.stairs[i] == nil; j-- {
			if pl.alike(s.hosts[j], h) {
				s.stairs[i] = s.stairs[j]
			}
		}
		if s.stairs[i] == nil {
			s.stairs[i] = pl.newStaircase(s, h, steps)
		}
		if *steps < 0 {
			return false
		}
	}
	return true
}

func (pl *plan) alike(a, b int) bool {
	for r := range pl.shapes {
		if pl.slotsOf(r, a) != pl.slotsOf(r, b) {
			return false
		}
	}
	return slices.Equal(pl.freeOn(a), pl.freeOn(b)) && (!pl.demands || pl.gpusOn(a) == pl.gpusOn(b))
}

// staircase lists what one host can take.
type staircase struct {
	options []option
	counts  []int32 // [option][small]
}

// option is one way to use a host.
type option struct {
	offset int   // how it moves a state
	beside int32 // pods of the largest role that fit as well
}

// newStaircase is incomplete when the steps are used up.
func (pl *plan) newStaircase(s *sum, host int, steps *int) *staircase {
	st := &staircase{}
	left := slices.Clone(pl.freeOn(host))
	counts, taken := make([]int32, len(s.small)), make([]int64, len(pl.shapes))
	// most is how many more pods of a role the host takes.
	most := func(role int, limit int32) int32 {
		if pl.slotsOf(role, host) == 0 {
			return 0
		}
		return int32(min(pl.slotsBeside(role, host, left, taken), int64(limit)))
	}
	var choose func(i, offset int)
	choose = func(i, offset int) {
		if i == len(s.small) {
			st.options = append(st.options, option{offset, most(s.big, s.need)})
			st.counts = append(st.counts, counts...)
			return
		}
		request := pl.p.Roles[s.small[i]].Request
		top := most(s.small[i], s.limit[i])
		for n := int32(0); n <= top; n++ {
			if *steps -= len(s.small); *steps < 0 {
				return
			}
			counts[i], taken[s.small[i]] = n, int64(n)
			choose(i+1, offset+int(n)*s.weight[i])
			for d := range left {
				left[d] -= max(request[d], 0)
			}
		}
		for d := range left {
			left[d] += max(request[d], 0) * int64(top+1)
		}
		taken[s.small[i]] = 0
	}
	choose(0, 0)
	return st
}

// hopeless is a cheap "no": if even the most pods that the hosts take, each by
// itself and regardless of their mix, are too few, then no mix will do.
func (s *sum) hopeless(need []int64) bool {
	total, wanted := int64(0), int64(0)
	var value int64
	for i, st := range s.stairs {
		if i == 0 || st != s.stairs[i-1] {
			value = 0
			for o, opt := range st.options {
				pods := int64(opt.beside)
				for _, n := range st.counts[o*len(s.small) : (o+1)*len(s.small)] {
					pods += int64(n)
				}
				value = max(value, pods)
			}
		}
		total += value
	}
	for _, n := range need {
		wanted += n
	}
	return total < wanted
}

// extend adds one more host to a row of the table.
func (s *sum) extend(last []int32, st *staircase) []int32 {
	row := make([]int32, s.states)
	for state := range row {
		best := int32(-1)
		for o, opt := range st.options {
			if opt.offset > state || last[state-opt.offset] < 0 || !s.allows(state, st, o) {
				continue
			}
			best = max(best, last[state-opt.offset]+opt.beside)
		}
		row[state] = best
	}
	return row
}

// allows says whether the option takes no more of any small role than the state counts.
func (s *sum) allows(state int, st *staircase, option int) bool {
	n := len(s.small)
	if n == 1 {
		return true // the offset says it
	}
	have, take := s.digits[state*n:(state+1)*n], st.counts[option*n:(option+1)*n]
	for i := range take {
		if take[i] > have[i] {
			return false
		}
	}
	return true
}

// addUp adds the staircases up, until a row is enough or all of them are in it; decided
// is false if it ran out of steps.
func (s *sum) addUp(steps *int, enough func(last []int32) bool) (rows [][]int32, decided bool) {
	last := slices.Repeat([]int32{-1}, s.states)
	last[0] = 0
	rows = [][]int32{last}
	for _, st := range s.stairs {
		if enough(last) {
			break
		}
		if *steps -= len(st.options) * s.states * max(1, len(s.small)); *steps < 0 {
			return rows, false
		}
		last = s.extend(last, st)
		rows = append(rows, last)
	}
	return rows, true
}

// trace walks the table back from a state of its last row, with so many pods of the
// largest role, and collects who goes where.
func (s *sum) trace(rows [][]int32, roles, state int, want int32) fill {
	f := make(fill, roles)
	for i := len(rows) - 2; i >= 0; i-- {
		last, st := rows[i], s.stairs[i]
		for o, opt := range st.options {
			if opt.offset > state || last[state-opt.offset] < max(0, want-opt.beside) || !s.allows(state, st, o) {
				continue
			}
			taken := min(want, opt.beside)
			want -= taken
			if taken > 0 {
				f[s.big] = append(f[s.big], share{s.hosts[i], int64(taken)})
			}
			for j, r := range s.small {
				if n := st.counts[o*len(s.small)+j]; n > 0 {
					f[r] = append(f[r], share{s.hosts[i], int64(n)})
				}
			}
			state -= opt.offset
			break
		}
	}
	return f
}
