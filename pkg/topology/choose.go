// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"slices"
)

// Every says whether all sets of the free GPUs that have the size satisfy the
// ask: what can be promised while someone else picks them.
func (g *GPUs) Every(free Set, ask Ask) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if ask.Link == 0 || ask.Size < 2 {
		return true
	}
	if g.uniform {
		free = g.All()
	}
	for _, set := range g.subsetsOf(free, ask.Size) {
		if !g.satisfies(set, ask.Link) {
			return false
		}
	}
	return true
}

// Pack says whether all asks can be satisfied at once, each by GPUs of its own.
func (g *GPUs) Pack(free Set, asks []Ask) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pack(free, asks)
}

// asksKey names asks for some of the free GPUs.
type asksKey struct {
	free Set
	asks string
}

func newAsksKey(free Set, asks []Ask) asksKey {
	name := make([]byte, 0, 2*maxGPUs)
	for _, a := range asks {
		name = append(name, byte(a.Size), byte(a.Link))
	}
	return asksKey{free, string(name)}
}

// pack tries, for the first ask, all sets that are not alike, and remembers what
// came of it: O(sets squared) for each number of asks.
func (g *GPUs) pack(free Set, asks []Ask) bool {
	size := 0
	for _, a := range asks {
		size += a.Size
	}
	if size > free.Len() {
		return false
	}
	if len(asks) == 0 {
		return true
	}
	key := newAsksKey(g.like(free), asks)
	is, ok := g.packed[key]
	if !ok {
		is = slices.ContainsFunc(g.subsetsOf(key.free, asks[0].Size), func(set Set) bool {
			return g.satisfies(set, asks[0].Link) && g.pack(key.free&^set, asks[1:])
		})
		remember(g.packed, key, is)
	}
	return is
}

// most is how many asks alike can be satisfied at once.
func (g *GPUs) most(free Set, ask Ask) int {
	asks := make([]Ask, 0, maxGPUs)
	for n := 0; ; n++ {
		if asks = append(asks, ask); !g.pack(free, asks) {
			return n
		}
	}
}

// Islands is what the free GPUs are worth to pods yet to come: how many pairs,
// and how many quads, that are joined as well as pairs and quads of this board
// can be, they hold at once. On a uniform host nothing can be broken: 0.
func (g *GPUs) Islands(free Set) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.islands(free)
}

func (g *GPUs) islands(free Set) int {
	if g.uniform {
		return 0
	}
	free = g.like(free)
	n, ok := g.islanded[free]
	if !ok {
		for _, island := range g.islandAsks() {
			n += g.most(free, island)
		}
		g.islanded[free] = n
	}
	return n
}

// islandAsks are the strongest links by which the board joins a pair, and a quad.
func (g *GPUs) islandAsks() []Ask {
	var asks []Ask
	for _, size := range []int{2, 4} {
		for link := Demand(len(demands) - 1); link > 0; link-- {
			if a := (Ask{size, link}); g.pack(g.All(), []Ask{a}) {
				asks = append(asks, a)
				break
			}
		}
	}
	return asks
}

// Broken is how many islands are lost when so many of the free GPUs are taken:
// at least, and if they are taken without care.
func (g *GPUs) Broken(free Set, size int) (least, most int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.uniform || free.Len() < size {
		return 0, 0
	}
	key := setSize{g.like(free), size}
	b, ok := g.broken[key]
	if !ok {
		for i, set := range g.subsetsOf(key.free, size) {
			lost := g.islands(key.free) - g.islands(key.free&^set)
			if i == 0 {
				b = [2]int{lost, lost}
			}
			b[0], b[1] = min(b[0], lost), max(b[1], lost)
		}
		g.broken[key] = b
	}
	return b[0], b[1]
}

// Choose gives each ask its own GPUs such that their collectives together take
// least time and, among equals, most islands are left; nil if not all asks can
// be satisfied at once.
func (g *GPUs) Choose(free Set, asks []Ask) []Set {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := newAsksKey(free, asks)
	sets, ok := g.chosen[key]
	if !ok {
		for i := range asks {
			set, _, found := g.choose(free, asks[i:])
			if !found {
				sets = nil
				break
			}
			sets = append(sets, set)
			free &^= set
		}
		remember(g.chosen, key, sets)
	}
	return slices.Clone(sets)
}

// price is what a choice of sets costs: less is better.
type price struct {
	nanos   int64
	islands int // left
}

func (a price) compare(b price) int {
	return cmp.Or(cmp.Compare(a.nanos, b.nanos), cmp.Compare(b.islands, a.islands))
}

// choose finds the best set for the first ask, and what it costs with all others.
func (g *GPUs) choose(free Set, asks []Ask) (best Set, least price, found bool) {
	for _, set := range g.subsetsOf(free, asks[0].Size) {
		if !g.satisfies(set, asks[0].Link) {
			continue
		}
		p, ok := g.priceOf(free&^set, asks[1:])
		p.nanos += g.allReduceNanos(set)
		if ok && (!found || p.compare(least) < 0) {
			best, least, found = set, p, true
		}
	}
	return best, least, found
}

// priced is the price of asks, if they can be satisfied at all.
type priced struct {
	price
	ok bool
}

func (g *GPUs) priceOf(free Set, asks []Ask) (price, bool) {
	if len(asks) == 0 {
		return price{islands: g.islands(free)}, true
	}
	key := newAsksKey(g.like(free), asks)
	p, known := g.prices[key]
	if !known {
		_, p.price, p.ok = g.choose(key.free, asks)
		remember(g.prices, key, p)
	}
	return p.price, p.ok
}

// maxRemembered bounds what is kept of each sort; beyond it all is forgotten.
const maxRemembered = 1 << 16

func remember[K comparable, V any](m map[K]V, key K, value V) {
	if len(m) >= maxRemembered {
		clear(m)
	}
	m[key] = value
}
