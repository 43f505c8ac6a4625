// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package topology

import "slices"

// Bounds of the search for rings: of one over a set's GPUs, and of as many as fit in
// beside each other over those of all sets of a board, an equal share for each. Boards
// of 8 GPUs, of 256 sets, have 2^14 steps for each and need some thousand; of 12 GPUs
// that are all unlike, of 4,096 sets, 2^10. Beyond it the rings found so far count,
// which promises too little rather than too much.
const (
	maxRingSteps  = 1 << 18
	maxBoardSteps = 1 << 22
)

// ringsOf is how many directed rings over all GPUs of the set fit in beside each
// other, each link carrying one ring in each direction. On a host with a switch
// every set has as many as a GPU has links.
func (g *GPUs) ringsOf(set Set) int {
	var members []int
	for i := range g.links {
		if set&(1<<i) != 0 {
			members = append(members, i)
		}
	}
	left := make([][]int, len(members))
	least := 0
	for a, i := range members {
		left[a] = make([]int, len(members))
		for b, j := range members {
			if a == b || g.links[i][j].Class != classNVLink {
				continue
			}
			left[a][b] = g.links[i][j].Bonded
			if least == 0 || left[a][b] < least {
				least = left[a][b]
			}
		}
	}
	if g.switched() {
		return throughSwitch(left, least)
	}
	p := ringPacking{left: left, steps: min(maxRingSteps, maxBoardSteps/g.kinds()), goal: 1 << 30}
	p.goal = p.bound()
	p.extend(0, make([]int, 1, len(members)), nil)
	return p.best
}

// switched says whether some GPU shows more links than it has.
func (g *GPUs) switched() bool {
	for i := range g.links {
		links, others := 0, 0
		for j, l := range g.links[i] {
			if i != j && l.Class == classNVLink {
				links, others = links+l.Bonded, others+1
			}
		}
		// Of a GPU that reaches several others nothing else is known: assume the
		// switch, which is less.
		if g.rates.NVLinks > 0 && links > g.rates.NVLinks || g.rates.NVLinks == 0 && others > 2 && g.equalRow(i) {
			return true
		}
	}
	return false
}

func (g *GPUs) equalRow(i int) bool {
	for j := range g.links {
		if j != i && g.links[i][j] != g.links[i][(i+1)%len(g.links)] {
			return false
		}
	}
	return true
}

// throughSwitch: all members reach each other with what the weakest has.
func throughSwitch(left [][]int, least int) int {
	for a := range left {
		for b := range left {
			if a != b && left[a][b] == 0 {
				return 0
			}
		}
	}
	return least
}

// ringPacking searches for the most rings. left is the links not in use.
type ringPacking struct {
	left  [][]int
	best  int
	goal  int // no more are possible
	steps int
}

// bound is how many rings the GPU with the fewest links left still allows.
func (p *ringPacking) bound() int {
	least := p.goal
	for a := range p.left {
		out, in := 0, 0
		for b := range p.left {
			out += p.left[a][b]
			in += p.left[b][a]
		}
		least = min(least, out, in)
	}
	return least
}

// extend lengthens a way that began at the first member and, when it is closed,
// begins another. Rings are put in one order only: none before the last.
func (p *ringPacking) extend(rings int, way, last []int) {
	p.steps--
	if p.best == p.goal || p.steps < 0 {
		return
	}
	at := way[len(way)-1]
	if len(way) == len(p.left) {
		if p.left[at][0] == 0 || slices.Compare(way, last) < 0 {
			return
		}
		p.use(way, -1)
		p.best = max(p.best, rings+1)
		if rings+1+p.bound() > p.best {
			p.extend(rings+1, make([]int, 1, len(way)), slices.Clone(way))
		}
		p.use(way, 1)
		return
	}
	for next := 1; next < len(p.left); next++ {
		if p.left[at][next] > 0 && !slices.Contains(way, next) {
			p.extend(rings, append(way, next), last)
		}
	}
}

func (p *ringPacking) use(way []int, n int) {
	for i, a := range way {
		p.left[a][way[(i+1)%len(way)]] += n
	}
}
