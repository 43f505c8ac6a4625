// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
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

	uniform bool
	twins   []Set

	// What has been found out, for sets without their likes.
	mu       sync.Mutex
	rings    map[Set]int
	ringed   map[setLink]bool
	lists    map[setSize][]Set
	ranges   map[setSize]setRange
	packed   map[asksKey]bool
	islanded map[Set]int
	broken   map[setSize][2]int
	prices   map[asksKey]priced
	chosen   map[asksKey][]Set // here the very GPUs matter
}

// maxSets bounds the sets of a host that are not alike: 256 on a board of 8 GPUs
// of which each is in a place of its own, 6,561 on one of 8 pairs.
const maxSets = 1 << 13

// Rates are a host's bandwidths in MB/s per direction.
type Rates struct {
	NVLink int // of one link
	PCIe   int // of a GPU's slot
	Socket int // between sockets
	// NVLinks is how many links a GPU has. Where a row of the matrix shows more,
	// they go through a switch, and not to each of the others.
	NVLinks int
}

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
	g := &GPUs{
		links: links, numa: numa, rates: rates,
		rings: map[Set]int{}, ringed: map[setLink]bool{}, lists: map[setSize][]Set{}, ranges: map[setSize]setRange{},
		packed: map[asksKey]bool{}, islanded: map[Set]int{}, broken: map[setSize][2]int{},
		prices: map[asksKey]priced{}, chosen: map[asksKey][]Set{},
	}
	g.uniform, g.twins = g.isUniform(), g.findTwins()
	if g.uniform {
		g.twins = []Set{g.All()}
	}
	if g.kinds() > maxSets {
		return nil, fmt.Errorf("%d GPUs in %d different places are more than can be told apart", n, len(g.twins))
	}
	return g, nil
}

// Count is how many GPUs there are.
func (g *GPUs) Count() int { return len(g.links) }

// All is the set of all GPUs.
func (g *GPUs) All() Set { return Set(1<<len(g.links) - 1) }

// Uniform says whether all sets of one size are equally connected, so that only
// counts matter. Without NVLink GPUs on different NUMA nodes are not alike, even
// where the matrix says so.
func (g *GPUs) Uniform() bool { return g.uniform }

func (g *GPUs) isUniform() bool {
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
	if set.Len() < 2 {
		return 0
	}
	set = g.like(set)
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
	if size < 2 || free.Len() < size {
		return 0, 0
	}
	key := setSize{g.like(free), size}
	r, ok := g.ranges[key]
	if !ok {
		for i, set := range g.subsetsOf(key.free, size) {
			b := g.bandwidth(set)
			if i == 0 {
				r = setRange{b, b}
			}
			r.best, r.guaranteed = max(r.best, b), min(r.guaranteed, b)
		}
		g.ranges[key] = r
	}
	return r.best, r.guaranteed
}

// subsetsOf are subsets, kept for free sets that stand for their likes.
func (g *GPUs) subsetsOf(free Set, size int) []Set {
	if free != g.like(free) {
		return g.subsets(free, size)
	}
	key := setSize{free, size}
	list, ok := g.lists[key]
	if !ok {
		list = g.subsets(free, size)
		g.lists[key] = list
	}
	return list
}

// modelMB is how much a collective moves to be compared by, in MB.
const modelMB = 1000

// AllReduceNanos is how long an all-reduce of 1 GB over the set's GPUs takes, in
// nanoseconds: each sends 2 (n-1)/n of it around the ring. A set of one takes
// none; one whose bandwidth is not known is slower than any other.
func (g *GPUs) AllReduceNanos(set Set) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.allReduceNanos(set)
}

func (g *GPUs) allReduceNanos(set Set) int64 {
	n := int64(set.Len())
	if n < 2 {
		return 0
	}
	return 2 * (n - 1) * modelMB * 1_000_000_000 / (n * int64(max(1, g.bandwidth(set))))
}
