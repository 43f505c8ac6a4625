// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"
	"sort"
)

// ordered is a sorted set of keys, cut into chunks so that a change moves few
// of them. No chunk is empty.
type ordered struct{ chunks [][]key }

const maxChunk = 512

// newOrdered takes those keys that have slots.
func newOrdered(keys []key) *ordered {
	all := make([]key, 0, len(keys))
	for _, k := range keys {
		if k.slots() > 0 {
			all = append(all, k)
		}
	}
	slices.Sort(all)
	o := &ordered{}
	for chunk := range slices.Chunk(all, maxChunk/2) {
		o.chunks = append(o.chunks, slices.Clone(chunk))
	}
	return o
}

// place is a position in an ordered set.
type place struct{ chunk, i int }

// seek is the place of the first key that is not below k.
func (o *ordered) seek(k key) place {
	c := sort.Search(len(o.chunks), func(i int) bool { return o.chunks[i][len(o.chunks[i])-1] >= k })
	if c == len(o.chunks) {
		return place{c, 0}
	}
	i, _ := slices.BinarySearch(o.chunks[c], k)
	return place{c, i}
}

// at returns the key at a place, or false behind the last and before the first.
func (o *ordered) at(p place) (key, bool) {
	if p.chunk < 0 || p.chunk >= len(o.chunks) {
		return 0, false
	}
	return o.chunks[p.chunk][p.i], true
}

func (o *ordered) next(p place) place {
	if p.i+1 < len(o.chunks[p.chunk]) {
		return place{p.chunk, p.i + 1}
	}
	return place{p.chunk + 1, 0}
}

func (o *ordered) before(p place) place {
	switch {
	case p.i > 0:
		return place{p.chunk, p.i - 1}
	case p.chunk == 0:
		return place{-1, 0}
	default:
		return place{p.chunk - 1, len(o.chunks[p.chunk-1]) - 1}
	}
}

func (o *ordered) insert(k key) {
	p := o.seek(k)
	if p.chunk == len(o.chunks) {
		if p.chunk == 0 {
			o.chunks = [][]key{{k}}
			return
		}
		p = place{p.chunk - 1, len(o.chunks[p.chunk-1])}
	}
	c := slices.Insert(o.chunks[p.chunk], p.i, k)
	o.chunks[p.chunk] = c
	if len(c) > maxChunk {
		o.chunks[p.chunk] = slices.Clone(c[:len(c)/2])
		o.chunks = slices.Insert(o.chunks, p.chunk+1, slices.Clone(c[len(c)/2:]))
	}
}

func (o *ordered) remove(k key) {
	p := o.seek(k)
	o.chunks[p.chunk] = slices.Delete(o.chunks[p.chunk], p.i, p.i+1)
	if len(o.chunks[p.chunk]) == 0 {
		o.chunks = slices.Delete(o.chunks, p.chunk, p.chunk+1)
	}
}

// fits is the place of the key in the class with the least slots that are at
// least need, the first of those in order.
func (o *ordered) fits(class int, need int64) (place, bool) {
	p := o.before(o.seek(newKey(class, need-1, 0, 0)))
	k, ok := o.at(p)
	if !ok || k.class() != class {
		return place{}, false
	}
	return o.seek(newKey(class, k.slots(), 0, 0)), true
}
