// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"slices"
	"strings"
)

// Demand is the weakest link that a pod allows among its GPUs, as a position in
// Demands. The zero Demand allows any.
type Demand int

// Demands returns what can be asked for, the least first: any, numa, pcie,
// nvlink. They are those of LinkClasses.
func Demands() []string { return slices.Clone(demands) }

var demands = func() []string {
	var names []string
	for _, c := range slices.Backward(linkClasses) {
		if !slices.Contains(names, c.Asked) {
			names = append(names, c.Asked)
		}
	}
	return names
}()

// ParseDemand reads what a user asks for.
func ParseDemand(name string) (Demand, error) {
	i := slices.Index(demands, name)
	if i < 0 {
		return 0, fmt.Errorf("%q is no link that can be asked for; those are %s", name, strings.Join(demands, ", "))
	}
	return Demand(i), nil
}

func (d Demand) String() string { return demands[d] }

// allows says whether the link is no weaker than demanded.
func (d Demand) allows(l Link) bool {
	return slices.Index(demands, linkClasses[l.Class].Asked) >= int(d)
}

// Ask is what one pod wants of a host's GPUs: so many of them, and between them
// links no weaker than demanded.
type Ask struct {
	Size int
	Link Demand
}

// Satisfies says whether a ring over all GPUs of the set needs no link weaker
// than demanded: collectives run along rings, so the quad of a board will do
// though its diagonals have no link of their own, and so will the whole board.
func (g *GPUs) Satisfies(set Set, link Demand) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.satisfies(set, link)
}

type setLink struct {
	set  Set
	link Demand
}

func (g *GPUs) satisfies(set Set, link Demand) bool {
	if link == 0 || set.Len() < 2 {
		return true
	}
	key := setLink{g.like(set), link}
	is, ok := g.ringed[key]
	if !ok {
		is = g.hasRing(key.set, link)
		g.ringed[key] = is
	}
	return is
}

// hasRing looks for one ring along the links that are allowed.
func (g *GPUs) hasRing(set Set, link Demand) bool {
	members := set.members()
	next := make([]Set, len(g.links)) // [GPU] those it has an allowed link to
	for _, i := range members {
		for _, j := range members {
			if i != j && link.allows(g.links[i][j]) {
				next[i] |= 1 << j
			}
		}
		if len(members) > 2 && next[i].Len() < 2 {
			return false
		}
	}
	first := Set(1) << members[0]
	reached := first
	for grown := Set(0); grown != reached; {
		grown = reached
		for _, i := range grown.members() {
			reached |= next[i]
		}
	}
	if reached != set {
		return false
	}
	steps := maxRingSteps
	var extend func(at int, left Set) bool
	extend = func(at int, left Set) bool {
		if left == 0 {
			return next[at]&first != 0
		}
		steps--
		for _, i := range (next[at] & left).members() {
			if steps > 0 && extend(i, left&^(1<<i)) {
				return true
			}
		}
		return false
	}
	return extend(members[0], set&^first)
}
