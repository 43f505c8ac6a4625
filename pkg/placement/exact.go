// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import "slices"

// Limits of the exact packing, per plan. A step is one addition of a host's
// option to a state, about 2 ns; 5,000 hosts with 20 parameter servers and any
// number of workers take at most 2 million.
const (
	maxSteps      = 1 << 25
	maxCoverSteps = 1 << 21
	maxStates     = 1 << 23 // over all hosts of one packing
)

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
// That takes hosts x states x options steps, where states is the product of
// (pods+1) over those roles and a host has no more options than states.
func (pl *planner) solve(need []int64, hosts []int, steps *int) (f fill, decided bool) {
	hosts = slices.DeleteFunc(slices.Clone(hosts), func(h int) bool { return !pl.helps(need, h) })
	s, ok := pl.newStaircase(need, len(hosts))
	switch {
	case s == nil:
		return nil, ok || pl.giveUp(steps)
	case !pl.amountsHold(need, hosts):
		return nil, true
	}
	most := make([]int32, s.states, s.states*min(len(hosts)+1, 64))
	for i := range most {
		most[i] = -1
	}
	most[0] = 0
	for i, h := range hosts {
		s.setHost(h)
		if *steps -= len(s.options) * s.states; *steps < 0 {
			return nil, pl.giveUp(steps)
		}
		most = s.extend(most, i)
		if most[len(most)-1] >= s.need {
			return s.trace(most, hosts[:i+1], len(need)), true
		}
	}
	return nil, true
}

// helps says whether the host takes a pod of any role.
func (pl *planner) helps(need []int64, host int) bool {
	for r, n := range need {
		if n > 0 && pl.slots[r][host] > 0 {
			return true
		}
	}
	return false
}

// giveUp notes that a domain was left undecided.
func (pl *planner) giveUp(steps *int) bool {
	if steps == &pl.steps {
		pl.bounded = true
	}
	return false
}

// amountsHold compares, resource by resource, what all pods ask for with what
// is free: a cheap "no" for a full domain.
func (pl *planner) amountsHold(need []int64, hosts []int) bool {
	for d := range pl.p.Resources {
		asked, free := 0.0, int64(0)
		for r, role := range pl.p.Roles {
			asked += float64(need[r]) * float64(role.Request[d])
		}
		for _, h := range hosts {
			free += max(pl.p.Free[h][d], 0)
		}
		// Floats only to be safe from overflow; a near miss is left to the search.
		if asked > float64(free)*(1+1e-9) {
			return false
		}
	}
	return true
}

// staircase is the exact packing of one gang.
type staircase struct {
	pl     *planner
	big    int     // the role with most pods
	need   int32   // of the largest role
	small  []int   // the other roles
	limit  []int32 // [small] pods needed
	states int
	digits []int32 // [state][small] the state's counts
	weight []int   // [small] what one pod adds to a state's number

	host    int
	options []option
	counts  []int32 // [option][small]
}

// option is one way to use a host: counts of the small roles, and what fits beside.
type option struct {
	offset int // how it moves a state
	beside int32
}

// newStaircase returns nil and true if there is nothing to decide, since one
// role's sums say it all; nil and false if there are too many states.
func (pl *planner) newStaircase(need []int64, hosts int) (*staircase, bool) {
	s := &staircase{pl: pl, big: -1, states: 1}
	for r, n := range need {
		if n > 0 && (s.big < 0 || n > need[s.big]) {
			s.big = r
		}
	}
	for r, n := range need {
		if n == 0 || r == s.big {
			continue
		}
		if n >= maxStates || s.states > maxStates/int(n+1)/(hosts+1) {
			return nil, false
		}
		s.small = append(s.small, r)
		s.limit = append(s.limit, int32(n))
		s.weight = append(s.weight, s.states)
		s.states *= int(n + 1)
	}
	if len(s.small) == 0 {
		return nil, true
	}
	s.need = int32(need[s.big])
	s.digits = make([]int32, 0, s.states*len(s.small))
	for state := range s.states {
		for i, w := range s.weight {
			s.digits = append(s.digits, int32(state/w)%(s.limit[i]+1))
		}
	}
	return s, true
}

// setHost lists the host's options, unless it is just like the last one.
func (s *staircase) setHost(host int) {
	if len(s.options) > 0 && s.alike(s.host, host) {
		s.host = host
		return
	}
	s.host = host
	s.options, s.counts = s.options[:0], s.counts[:0]
	left := append([]int64(nil), s.pl.p.Free[host]...)
	s.enumerate(0, option{}, make([]int32, len(s.small)), left)
}

func (s *staircase) alike(a, b int) bool {
	for d, v := range s.pl.p.Free[a] {
		if v != s.pl.p.Free[b][d] {
			return false
		}
	}
	for r := range s.pl.slots {
		if s.pl.slots[r][a] != s.pl.slots[r][b] {
			return false
		}
	}
	return true
}

// enumerate chooses the count of the i-th small role, and then of the rest.
func (s *staircase) enumerate(i int, o option, counts []int32, left []int64) {
	p := s.pl.p
	if i == len(s.small) {
		if s.pl.slots[s.big][s.host] > 0 {
			o.beside = int32(min(slotsIn(left, p.Roles[s.big]), int64(s.need)))
		}
		s.options = append(s.options, o)
		s.counts = append(s.counts, counts...)
		return
	}
	role := s.small[i]
	request := p.Roles[role].Request
	most := int32(0)
	if s.pl.slots[role][s.host] > 0 {
		most = int32(min(slotsIn(left, p.Roles[role]), int64(s.limit[i])))
	}
	for n := int32(0); n <= most; n++ {
		counts[i] = n
		s.enumerate(i+1, option{offset: o.offset + int(n)*s.weight[i]}, counts, left)
		for d := range left {
			left[d] -= max(request[d], 0)
		}
	}
	for d := range left {
		left[d] += max(request[d], 0) * int64(most+1)
	}
	counts[i] = 0
}

// extend appends the row of one more host to the table.
func (s *staircase) extend(most []int32, row int) []int32 {
	last := most[row*s.states : (row+1)*s.states]
	for state := range s.states {
		best := int32(-1)
		for o, opt := range s.options {
			if opt.offset > state || last[state-opt.offset] < 0 || !s.allows(state, o) {
				continue
			}
			best = max(best, last[state-opt.offset]+opt.beside)
		}
		most = append(most, best)
	}
	return most
}

// allows says whether the option takes no more of any small role than the state counts.
func (s *staircase) allows(state, option int) bool {
	n := len(s.small)
	if n == 1 {
		return true // the offset says it
	}
	have, take := s.digits[state*n:(state+1)*n], s.counts[option*n:(option+1)*n]
	for i := range take {
		if take[i] > have[i] {
			return false
		}
	}
	return true
}

// trace walks the finished table back and collects who goes where. It leaves
// out hosts that the gang can do without.
func (s *staircase) trace(most []int32, hosts []int, roles int) fill {
	f := make(fill, roles)
	state, want := s.states-1, s.need
	for row := len(hosts); row > 0; row-- {
		last := most[(row-1)*s.states : row*s.states]
		s.setHost(hosts[row-1])
		for o, opt := range s.options {
			if opt.offset > state || last[state-opt.offset] < max(0, want-opt.beside) || !s.allows(state, o) {
				continue
			}
			// The first option is the empty one but for the largest role.
			taken := min(want, opt.beside)
			if o == 0 && last[state] >= want {
				taken = 0
			}
			want -= taken
			if taken > 0 {
				f[s.big] = append(f[s.big], share{hosts[row-1], int64(taken)})
			}
			for i, r := range s.small {
				if n := s.counts[o*len(s.small)+i]; n > 0 {
					f[r] = append(f[r], share{hosts[row-1], int64(n)})
				}
			}
			state -= opt.offset
			break
		}
	}
	return f
}
