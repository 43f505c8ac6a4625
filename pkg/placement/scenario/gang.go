// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tutti-project/tutti/pkg/placement"
	"github.com/tutti-project/tutti/pkg/topology"
)

// maxPods bounds a gang, and so what a slip of the pen costs.
const maxPods = 10_000

// gang is what is to be placed.
type gang struct {
	name        string
	problem     placement.Problem
	keep, evict bool
}

func readGang(c *cluster, words []word, s step) (*gang, error) {
	g := &gang{problem: placement.Problem{Tree: c.tree, Resources: resources, Free: c.free, Kinds: c.kinds, GPUs: c.gpus, Empty: c.empty}}
	for _, w := range words {
		if err := g.setWord(c, s.command, w); err != nil {
			return nil, err
		}
	}
	if g.name == "" {
		return nil, at(s.command.number, "the gang has no name; write place gang=name")
	}
	left := int64(maxPods)
	for _, l := range s.body {
		role, err := readRole(c, l, left)
		if err != nil {
			return nil, err
		}
		left -= int64(role.Pods)
		g.problem.Roles = append(g.problem.Roles, role)
	}
	return g, nil
}

func (g *gang) setWord(c *cluster, l line, w word) (err error) {
	p := &g.problem
	switch w.key {
	case "gang":
		g.name, err = l.one(w)
	case "within":
		p.Constraint.Required, err = g.levelOf(c, l, w)
	case "prefer":
		p.Constraint.Preferred, err = g.levelOf(c, l, w)
	case "anchors":
		p.Anchors, err = c.hosts(l, w.values)
	case "slices":
		if len(w.values) != 2 {
			return at(l.number, "slices want a size and a level: slices=(4, rack)")
		}
		var n int64
		if n, err = l.integer(word{w.key, w.values[:1]}, 1, maxPods); err != nil {
			return err
		}
		p.Constraint.SliceSize = int(n)
		p.Constraint.SliceLevel, err = c.level(l, w.values[1])
	case "keep":
		g.keep = true
	case "evict":
		g.evict = true
	default:
		err = at(l.number, "%q is not known here; a gang has gang, within, prefer, slices, anchors, keep and evict", w.key)
	}
	return err
}

func (g *gang) levelOf(c *cluster, l line, w word) (int, error) {
	name, err := l.one(w)
	if err != nil {
		return 0, err
	}
	return c.level(l, name)
}

// readRole reads "worker pods=4 gpu=8", of at most so many pods.
func readRole(c *cluster, l line, most int64) (placement.Role, error) {
	words, err := l.words()
	if err != nil {
		return placement.Role{}, err
	}
	role := placement.Role{Name: words[0].key, Minimum: -1, Request: []int64{millis, 0, 1, 0}}
	var on []int
	somewhere, mixed := true, false
	for _, w := range words[1:] {
		var n int64
		switch w.key {
		case "pods":
			n, err = l.integer(w, 0, most)
			role.Pods = int(n)
		case "min":
			n, err = l.integer(w, 0, maxPods)
			role.Minimum = int(n)
		case "on":
			somewhere = false
			on, err = c.hosts(l, w.values)
		case "mixed":
			mixed = true
		case "kind":
			role.Kind, err = l.one(w)
		case "link":
			role.GPU = gpu
			role.Link, err = l.demand(w)
		default:
			err = l.setAmount(role.Request, w, 0)
		}
		if err != nil {
			return placement.Role{}, err
		}
	}
	role.Serves = role.Name == "ps"
	role.Uniform = role.Request[gpu] > 0 && !mixed
	if role.Minimum < 0 {
		role.Minimum = role.Pods
	}
	role.Eligible = func(h int) (bool, string) {
		if c.not[h] != "" {
			return false, c.not[h]
		}
		return somewhere || slices.Contains(on, h), "node selector"
	}
	role.EligibleEmpty = role.Eligible
	return role, nil
}

func (l line) demand(w word) (topology.Demand, error) {
	name, err := l.one(w)
	if err != nil {
		return 0, err
	}
	demand, err := topology.ParseDemand(name)
	if err != nil {
		return 0, at(l.number, "%w", err)
	}
	return demand, nil
}

// place plans the gang and tells where it goes.
func (g *gang) place(c *cluster) string {
	decision, eviction := placement.Plan(g.problem), placement.Eviction{}
	if g.evict {
		decision, eviction = placement.PlanWithVictims(g.problem, c.runs)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", g.name, decision.Explain(g.problem))
	for _, v := range eviction.Victims {
		fmt.Fprintf(&b, "evicted: %s\n", c.runs[v].Name)
	}
	for r, role := range g.problem.Roles {
		if decision.Hosts != nil {
			fmt.Fprintf(&b, "%s: %s\n", role.Name, c.ranks(decision.Hosts[r]))
		}
		if decision.GPUs != nil {
			fmt.Fprintf(&b, "%s has GPUs %s\n", role.Name, sets(decision.GPUs[r]))
		}
	}
	if g.keep {
		g.take(c, decision)
	}
	return b.String()
}

// take takes the room of a placed gang away.
func (g *gang) take(c *cluster, decision placement.Decision) {
	for r, ranks := range decision.Hosts {
		for rank, h := range ranks {
			if h == placement.Unplaced {
				continue
			}
			for d, n := range g.problem.Roles[r].Request {
				c.free[h][d] -= n
			}
			if decision.GPUs != nil {
				c.gpus[h].Free &^= decision.GPUs[r][rank]
			}
		}
	}
}

// ranks: "0-3 n1, 4 n2, 5 -".
func (c *cluster) ranks(hosts []int) string {
	var parts []string
	for first := 0; first < len(hosts); {
		last := first
		for last+1 < len(hosts) && hosts[last+1] == hosts[first] {
			last++
		}
		name := "-"
		if hosts[first] != placement.Unplaced {
			name = c.tree.HostName(hosts[first])
		}
		ranks := strconv.Itoa(first)
		if last > first {
			ranks += "-" + strconv.Itoa(last)
		}
		parts = append(parts, ranks+" "+name)
		first = last + 1
	}
	return strings.Join(parts, ", ")
}

// sets: "0,1 - 2,3", by rank.
func sets(of []topology.Set) string {
	var names []string
	for _, set := range of {
		names = append(names, cmp.Or(set.String(), "-"))
	}
	return strings.Join(names, " ")
}
