// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"encoding/binary"
	"slices"
)

// splitter splits exactly: it tries everything, part by part, and finds a split if
// there is one. What it has found out of each part, and of those behind it together,
// it keeps from one number of pods to the next. With states the product of (pods + 1)
// over all roles it packs at most parts x states times, and tries at most parts x
// states x states.
type splitter struct {
	pl        *plan
	steps     *int
	tier      int
	n         int64 // ranks of a slice
	parts     []int
	later     [][]int64       // [part][role] slots in the parts behind it
	left      []int64         // [role] pods without a part
	failed    map[string]bool // parts from one on do not hold what is left
	holds     map[string]bool // one part and some pods
	portions  []portion
	undecided bool // it ran out of steps, or a part was too large to pack exactly
}

// Steps of a splitter.
const (
	lookSteps = 4  // a host, for one role
	trySteps  = 32 // some pods in a part, whether or not it is known that it holds them
)

func (pl *plan) newSplitter(parts []int, steps *int) *splitter {
	s := &splitter{
		pl: pl, steps: steps, tier: pl.tierOf[pl.p.Constraint.SliceLevel], n: int64(pl.p.Constraint.SliceSize),
		parts: parts, later: make([][]int64, len(parts)), failed: make(map[string]bool), holds: make(map[string]bool),
	}
	later := make([]int64, len(pl.p.Roles))
	for i, k := range slices.Backward(parts) {
		s.later[i] = slices.Clone(later)
		for r := range later {
			later[r] += pl.sum(s.tier, r, k)
		}
	}
	return s
}

// spend notes if there are no such steps left.
func (s *splitter) spend(steps int) bool {
	*s.steps -= steps
	s.undecided = s.undecided || *s.steps < 0
	return *s.steps >= 0
}

// split is nil if there is none, or undecided.
func (s *splitter) split(need []int64) []portion {
	s.left, s.portions = slices.Clone(need), nil
	if !s.fill(0) {
		return nil
	}
	return s.portions
}

// fill places what is left in the parts from the i-th on.
func (s *splitter) fill(i int) bool {
	if !slices.ContainsFunc(s.left, func(n int64) bool { return n > 0 }) {
		return true
	}
	state := stateOf(i, s.left)
	if i == len(s.parts) || s.failed[state] {
		return false
	}
	if s.choose(i, make([]int64, len(s.left)), 0) {
		return true
	}
	s.failed[state] = true
	return false
}

// stateOf is a part with numbers of pods.
func stateOf(part int, pods []int64) string {
	state := binary.AppendUvarint(nil, uint64(part))
	for _, n := range pods {
		state = binary.AppendVarint(state, n)
	}
	return string(state)
}

// choose tries for the i-th part all numbers of pods of the roles from r on.
// What is left of a role is whole slices and, until it is placed, the short one; no
// more of it than the parts behind have slots for. Of the last role most is best: where
// fewer would do for this part, the room of those behind would do for fewer too.
func (s *splitter) choose(i int, pods []int64, r int) bool {
	left := s.left[r]
	defer func() { s.left[r], pods[r] = left, 0 }()
	for take := min(left, s.pl.sum(s.tier, r, s.parts[i])); take >= max(0, left-s.later[i][r]) && *s.steps >= 0; take-- {
		if take%s.n != 0 && take%s.n != left%s.n {
			continue
		}
		pods[r], s.left[r] = take, left-take
		switch last := r == len(pods)-1; {
		case last && s.partHolds(i, pods):
			return s.take(i, pods)
		case !last && s.choose(i, pods, r+1):
			return true
		}
	}
	return false
}

func (s *splitter) take(i int, pods []int64) bool {
	s.portions = append(s.portions, portion{s.parts[i], slices.Clone(pods)})
	if s.fill(i + 1) {
		return true
	}
	s.portions = s.portions[:len(s.portions)-1]
	return false
}

// partHolds says whether the i-th part holds so many pods of all roles at once.
func (s *splitter) partHolds(i int, pods []int64) bool {
	state := stateOf(i, pods)
	holds, known := s.holds[state]
	if hosts := s.pl.hostsOf(s.tier, s.parts[i:i+1]); s.spend(trySteps) && !known && s.spend(lookSteps*hosts.size()*len(pods)) {
		if _, holds = s.pl.room.quickly(pods, hosts, nil, false); !holds {
			f, decided := s.pl.solve(pods, hosts, s.steps)
			holds, s.undecided = f != nil, s.undecided || !decided
		}
		s.holds[state] = holds
	}
	return holds
}
