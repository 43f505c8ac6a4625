// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"math/bits"
	"sync"
)

// GPUs is what is inside a kind of host: its GPUs, how they reach each other,
// and at which rates, in MB/s per direction. It does not change; hosts with
// equal GPUs share one value, and with it what it has found out.
//
// Links are measured, never looked up by index: the same board is numbered in
// several ways.
type GPUs struct {
	links [][]Link // symmetric; the diagonal means nothing
	numa  []int    // NUMA node of each GPU, -1 where unknown
	rates Rates

	mu     sync.Mutex
	rings  map[Set]int          // of sets that were asked for
	ranges map[setSize]setRange // of free sets that were asked for
}

// Rates are a host's bandwidths in MB/s per direction.
type Rates struct {
	NVLink int // of one link
	PCIe   int // of a GPU's slot
	Socket int // between sockets
	// NVLinks is how many links a GPU has. Where a row of the matrix shows more,
	// they go through a switch, and not to each of the others.
	NVLinks int
}

// Set is a set of a host's GPUs: bit i is GPU i.
type Set uint32

// maxGPUs is what a Set holds.
const maxGPUs = 32

type setSize struct {
	free Set
	size int
}

type setRange struct{ best, guaranteed int }

// NewGPUs checks and takes over the matrix. numa may be nil for unknown.
func NewGPUs(links [][]Link, numa []int, rates Rates) (*GPUs, error) {
	n := len(links)
	if n > maxGPUs {
		return nil, fmt.Errorf("%d GPUs, but at most %d are supported", n, maxGPUs)
	}
	if numa == nil {
		numa = make([]int, n)
		for i := range numa {
			numa[i] = -1
		}
	}
	if len(numa) != n {
		return nil, fmt.Errorf("NUMA nodes of %d GPUs for a matrix of %d", len(numa), n)
	}
	for i := range links {
		if len(links[i]) != n {
			return nil, fmt.Errorf("row %d of the link matrix has %d cells, want %d", i, len(links[i]), n)
		}
		for j := range i {
			if links[i][j] != links[j][i] {
				return nil, fmt.Errorf("the link matrix is not symmetric: %s from %d to %d, %s back", links[i][j], i, j, links[j][i])
			}
		}
	}
	return &GPUs{links: links, numa: numa, rates: rates, rings: map[Set]int{}, ranges: map[setSize]setRange{}}, nil
}

// Count is how many GPUs there are.
func (g *GPUs) Count() int { return len(g.links) }

// All is the set of all GPUs.
func (g *GPUs) All() Set { return Set(1<<len(g.links) - 1) }

// Uniform says whether all sets of one size are equally connected, so that only
// counts matter. Without NVLink GPUs on different NUMA nodes are not alike, even
// where the matrix says so.
func (g *GPUs) Uniform() bool {
	for i := range g.links {
		for j := range i {
			if g.links[i][j] != g.links[1][0] {
				return false
			}
			if g.links[i][j].Class != classNVLink && g.numa[i] != g.numa[j] {
				return false
			}
		}
	}
	return true
}

// RingBandwidth is what rings over all GPUs of the set achieve together: over
// NVLink as many as fit in beside each other, or else over the weakest link of
// the PCIe tree. A set of one needs no link and has 0.
func (g *GPUs) RingBandwidth(set Set) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.bandwidth(set)
}

// bandwidth is RingBandwidth under the lock.
func (g *GPUs) bandwidth(set Set) int {
	if bits.OnesCount32(uint32(set)) < 2 {
		return 0
	}
	rings, ok := g.rings[set]
	if !ok {
		rings = g.ringsOf(set)
		g.rings[set] = rings
	}
	return max(rings*g.rates.NVLink, g.pcie(set))
}

// pcie is the bandwidth of the set's weakest link without NVLink. Of two GPUs
// with NVLink the matrix does not tell the way through the PCIe tree, so it is
// taken for the longest.
func (g *GPUs) pcie(set Set) int {
	weakest := g.rates.PCIe
	for i := range g.links {
		for j := range i {
			if set&(1<<i) == 0 || set&(1<<j) == 0 {
				continue
			}
			switch percent := linkClasses[g.links[i][j].Class].Percent; {
			case percent > 0:
				weakest = min(weakest, g.rates.PCIe*percent/100)
			default:
				weakest = min(weakest, g.rates.Socket)
			}
		}
	}
	return weakest
}

// Range returns the ring bandwidth of the best set of so many of the free GPUs,
// and that which any such set has at least: what can be promised to a pod whose
// GPUs someone else picks. Both are 0 if not so many are free.
func (g *GPUs) Range(free Set, size int) (best, guaranteed int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if size < 2 || bits.OnesCount32(uint32(free)) < size {
		return 0, 0
	}
	key := setSize{free, size}
	r, ok := g.ranges[key]
	if !ok {
		r = g.rangeOf(free, size)
		g.ranges[key] = r
	}
	return r.best, r.guaranteed
}

// rangeOf looks at every subset, or on a uniform host at one.
func (g *GPUs) rangeOf(free Set, size int) setRange {
	r, first := setRange{}, true
	uniform := g.Uniform()
	for set := free; set != 0; set = (set - 1) & free {
		if bits.OnesCount32(uint32(set)) != size {
			continue
		}
		b := g.bandwidth(set)
		if first {
			r, first = setRange{b, b}, false
		}
		r.best, r.guaranteed = max(r.best, b), min(r.guaranteed, b)
		if uniform {
			break
		}
	}
	return r
}
