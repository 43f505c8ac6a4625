// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"

	"github.com/tutti-project/tutti/pkg/placement"
)

// cluster is what is free at a moment.
type cluster struct {
	*fabric
	free    []int64 // [host] GPUs
	used    int     // GPUs
	planner *placement.Planner
}

func newCluster(f *fabric) *cluster {
	c := &cluster{fabric: f, free: make([]int64, f.hosts())}
	rows := make([][]int64, f.hosts())
	for h := range c.free {
		c.free[h] = gpusPerHost
		rows[h] = []int64{gpusPerHost}
	}
	c.planner = placement.NewPlanner(f.tree, []string{"nvidia.com/gpu"}, rows)
	return c
}

func (c *cluster) take(hosts []int, gpus int) { c.add(hosts, -gpus) }
func (c *cluster) give(hosts []int, gpus int) { c.add(hosts, gpus) }

func (c *cluster) add(hosts []int, gpus int) {
	for _, h := range hosts {
		if c.free[h] += int64(gpus); c.free[h] < 0 {
			panic("a policy used a host beyond its GPUs")
		}
		c.planner.SetFree(h, []int64{c.free[h]})
	}
	c.used -= len(hosts) * gpus
}

// slots is how many pods of so many GPUs the hosts [first, last) take.
func (c *cluster) slots(first, last, gpus int) int {
	n := 0
	for _, free := range c.free[first:last] {
		n += int(free) / gpus
	}
	return n
}

// fewestLeaves and fewestSpines are the least that hold the gang now, each by
// itself: what the best of all policies could do in this moment.
func (c *cluster) fewestLeaves(g gang) int {
	sizes := make([]int, len(c.leaves))
	for i, d := range c.leaves {
		sizes[i] = c.slots(d.First, d.Last, g.gpus)
	}
	return fewest(sizes, g.pods)
}

func (c *cluster) fewestSpines(g gang) int {
	sizes := make([]int, len(c.spines))
	for i, d := range c.spines {
		sizes[i] = c.slots(d.First, d.Last, g.gpus)
	}
	return fewest(sizes, g.pods)
}

func fewest(sizes []int, need int) int {
	slices.Sort(sizes)
	n := 0
	for i := len(sizes) - 1; need > 0 && i >= 0; i-- {
		need -= sizes[i]
		n++
	}
	return n
}

// leafBound is the fewest leaves that any placement needs, on an empty cluster.
func (f *fabric) leafBound(g gang) int {
	perLeaf := f.largestLeaf * (gpusPerHost / g.gpus)
	return (g.pods + perLeaf - 1) / perLeaf
}

// largestInLeaf is the size in GPUs of the largest gang, of pods of a whole
// host, that one leaf takes.
func (c *cluster) largestInLeaf() int {
	hosts := 0
	for _, d := range c.leaves {
		hosts = max(hosts, c.slots(d.First, d.Last, gpusPerHost))
	}
	return hosts * gpusPerHost
}

// distinct counts the domains that the hosts are in; crossings, how often a ring
// over the pods in rank order passes from one to another.
func distinct(hosts, of []int) int {
	seen := make(map[int]bool, 8)
	for _, h := range hosts {
		seen[of[h]] = true
	}
	return len(seen)
}

func crossings(hosts, of []int) int {
	n := 0
	for i, h := range hosts {
		if of[h] != of[hosts[(i+1)%len(hosts)]] {
			n++
		}
	}
	return n
}
