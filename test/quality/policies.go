// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/tutti-project/tutti/pkg/placement"
	"github.com/tutti-project/tutti/pkg/topology"
)

// policy names the host of every pod, in rank order, or nil if the gang does not
// start now. With required set, all are in one leaf.
type policy struct {
	name  string
	what  string // for the reader of the results
	place func(c *cluster, g gang, required bool, rng *rand.Rand) []int
}

// policies: the planner itself, and the ideas of others, written anew and as
// simply as the idea allows. They emulate; they are not the programs that had
// the idea. All of them place the whole gang or nothing.
var policies = []policy{
	{"Tutti", "the planner itself (`placement.Planner`)", planned},
	{"best-fit counts", "emulation; the idea of Kueue's topology-aware scheduling: pods are counted per domain; the domain that fits best, " +
		"then down level by level with the fewest domains, largest first and the last by best fit", counted},
	{"tightest, greedy", "emulation; the idea of KAI, Volcano and kube-scheduler's topology-aware scheduling: the narrowest and tightest " +
		"domain whose sum holds the gang, and inside pod by pod to the fullest leaf and host", tightest},
	{"bin packing", "emulation: pod by pod to the fullest host", podByPod(fullest)},
	{"spreading", "emulation: pod by pod to the emptiest host", podByPod(emptiest)},
	{"random", "pod by pod to any host with room", podByPod(anyone)},
}

func planned(c *cluster, g gang, required bool, _ *rand.Rand) []int {
	p := c.planner.Problem()
	p.Roles = []placement.Role{{Name: "worker", Pods: g.pods, Minimum: g.pods, Request: []int64{int64(g.gpus)}}}
	p.Constraint.Preferred = c.leaf
	if required {
		p.Constraint.Required = c.leaf
	}
	d := c.planner.Plan(p)
	if d.Hosts == nil {
		return nil
	}
	return d.Hosts[0]
}

// podByPod emulates a scheduler that sees pods and hosts only. Where a leaf is
// required it acts as one does with a label selector: the first pod goes to the
// best host in any leaf that holds the gang, the others follow into that leaf.
func podByPod(best func(c *cluster, hosts []int, rng *rand.Rand) int) func(*cluster, gang, bool, *rand.Rand) []int {
	return func(c *cluster, g gang, required bool, rng *rand.Rand) []int {
		var hosts []int
		for _, d := range c.scopes(required) {
			if c.slots(d.First, d.Last, g.gpus) < g.pods {
				continue
			}
			for h := d.First; h < d.Last; h++ {
				hosts = append(hosts, h)
			}
		}
		var chosen []int
		for range g.pods {
			hosts = slices.DeleteFunc(hosts, func(h int) bool { return c.free[h] < int64(g.gpus) })
			if len(hosts) == 0 {
				break
			}
			h := best(c, hosts, rng)
			if required && len(chosen) == 0 {
				hosts = slices.DeleteFunc(hosts, func(o int) bool { return c.leafOf[o] != c.leafOf[h] })
			}
			chosen = append(chosen, h)
			c.free[h] -= int64(g.gpus)
		}
		for _, h := range chosen {
			c.free[h] += int64(g.gpus)
		}
		if len(chosen) < g.pods {
			return nil
		}
		return chosen
	}
}

// scopes are the domains of which one must hold the gang.
func (c *cluster) scopes(required bool) []topology.Domain {
	if required {
		return c.leaves
	}
	return c.tree.Domains(0)
}

func fullest(c *cluster, hosts []int, _ *rand.Rand) int {
	return slices.MinFunc(hosts, func(a, b int) int { return cmp.Compare(c.free[a], c.free[b]) })
}

func emptiest(c *cluster, hosts []int, _ *rand.Rand) int {
	return slices.MinFunc(hosts, func(a, b int) int { return cmp.Compare(c.free[b], c.free[a]) })
}

func anyone(_ *cluster, hosts []int, rng *rand.Rand) int { return hosts[rng.IntN(len(hosts))] }

// part is a domain with its room for the gang's pods.
type part struct {
	topology.Domain
	slots int
}

func (c *cluster) parts(level int, within topology.Domain, gpus int) []part {
	var parts []part
	for _, d := range c.tree.Domains(level) {
		if within.First <= d.First && d.Last <= within.Last {
			if s := c.slots(d.First, d.Last, gpus); s > 0 {
				parts = append(parts, part{d, s})
			}
		}
	}
	return parts
}

// holder is the tightest domain that holds the gang, of the narrowest level from
// the leaf up; with required set, only of the leaf.
func (c *cluster) holder(g gang, required bool) (part, bool) {
	for level := c.leaf; level >= 0; level-- {
		best, found := part{}, false
		for _, p := range c.parts(level, c.tree.Domain(0), g.gpus) {
			if p.slots >= g.pods && (!found || p.slots < best.slots) {
				best, found = p, true
			}
		}
		if found || required {
			return best, found
		}
	}
	return part{}, false
}

// tightest fills, pod by pod, the leaf with the least room left that has some,
// and there the host with the least room left.
func tightest(c *cluster, g gang, required bool, _ *rand.Rand) []int {
	domain, ok := c.holder(g, required)
	if !ok {
		return nil
	}
	leaves := c.parts(c.leaf, domain.Domain, g.gpus)
	if domain.Level == c.leaf {
		leaves = []part{domain}
	}
	slices.SortStableFunc(leaves, func(a, b part) int { return cmp.Compare(a.slots, b.slots) })
	var chosen []int
	for _, l := range leaves {
		hosts := c.parts(c.leaf+1, l.Domain, g.gpus)
		slices.SortStableFunc(hosts, func(a, b part) int { return cmp.Compare(a.slots, b.slots) })
		for _, h := range hosts {
			for range min(h.slots, g.pods-len(chosen)) {
				chosen = append(chosen, h.First)
			}
		}
	}
	return chosen
}

// counted goes down from the holder, at each level with as few domains as hold
// the gang: the largest first, the last the smallest that is enough.
func counted(c *cluster, g gang, required bool, _ *rand.Rand) []int {
	domain, ok := c.holder(g, required)
	if !ok {
		return nil
	}
	chosen := []part{{domain.Domain, g.pods}}
	for level := domain.Level + 1; level <= c.leaf+1; level++ {
		var next []part
		need := g.pods
		var parts []part
		for _, ch := range chosen {
			parts = append(parts, c.parts(level, ch.Domain, g.gpus)...)
		}
		slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(b.slots, a.slots) })
		for i, p := range parts {
			if need == 0 {
				break
			}
			if p.slots >= need {
				for _, q := range parts[i:] {
					if q.slots >= need && q.slots < p.slots {
						p = q
					}
				}
			}
			p.slots = min(p.slots, need)
			need -= p.slots
			next = append(next, p)
		}
		chosen = next
	}
	slices.SortFunc(chosen, func(a, b part) int { return cmp.Compare(a.First, b.First) })
	var hosts []int
	for _, h := range chosen {
		for range h.slots {
			hosts = append(hosts, h.First)
		}
	}
	return hosts
}
