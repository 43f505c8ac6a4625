// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"math/bits"
	"strconv"
	"strings"
)

// Set is a set of a host's GPUs: bit i is GPU i.
type Set uint32

// maxGPUs is what a Set holds.
const maxGPUs = 32

// Len is how many GPUs are in the set.
func (s Set) Len() int { return bits.OnesCount32(uint32(s)) }

func (s Set) members() []int {
	list := make([]int, 0, s.Len())
	for ; s != 0; s &= s - 1 {
		list = append(list, bits.TrailingZeros32(uint32(s)))
	}
	return list
}

// lowest is the set of the n lowest members.
func (s Set) lowest(n int) Set {
	rest := s
	for range n {
		rest &= rest - 1
	}
	return s &^ rest
}

// String lists the members: 0,3,5.
func (s Set) String() string {
	var names []string
	for _, i := range s.members() {
		names = append(names, strconv.Itoa(i))
	}
	return strings.Join(names, ",")
}

// twins are GPUs that can be exchanged for each other: same NUMA node, and the
// same links to all others. Sets that take as many of each are alike, so of
// those only the one with the lowest members is ever looked at.
func (g *GPUs) findTwins() []Set {
	var twins []Set
	for i := range g.links {
		found := false
		for t, set := range twins {
			if g.areTwins(i, set.members()[0]) {
				twins[t] |= 1 << i
				found = true
				break
			}
		}
		if !found {
			twins = append(twins, 1<<i)
		}
	}
	return twins
}

func (g *GPUs) areTwins(a, b int) bool {
	if g.numa[a] != g.numa[b] {
		return false
	}
	for i := range g.links {
		if i != a && i != b && g.links[i][a] != g.links[i][b] {
			return false
		}
	}
	return true
}

// like is the set that stands for all sets that are alike.
func (g *GPUs) like(set Set) Set {
	like := Set(0)
	for _, twins := range g.twins {
		like |= twins.lowest((set & twins).Len())
	}
	return like
}

// kinds is how many sets there are, of all sizes, that are not alike.
func (g *GPUs) kinds() int {
	n := 1
	for _, twins := range g.twins {
		n *= twins.Len() + 1
		if n > maxSets {
			return n
		}
	}
	return n
}

// subsets lists those of the set that have the size, one of each that are alike.
func (g *GPUs) subsets(of Set, size int) []Set {
	var list []Set
	var extend func(twins []Set, chosen Set, left int)
	extend = func(twins []Set, chosen Set, left int) {
		if left == 0 {
			list = append(list, chosen)
			return
		}
		if len(twins) == 0 {
			return
		}
		have := of & twins[0]
		for n := min(have.Len(), left); n >= 0; n-- {
			extend(twins[1:], chosen|have.lowest(n), left-n)
		}
	}
	extend(g.twins, 0, size)
	return list
}
