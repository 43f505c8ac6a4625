// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"
	"strings"

	"github.com/tutti-project/tutti/pkg/topology"
)

// Planner keeps, between plans on one cluster, what does not depend on the
// gang: for each shape of pod its slots, their sums and their order. After a
// change of k hosts a plan costs O(k log hosts + domains x roles + gang).
//
// Its plans are those of Plan on the same problem. It is not safe for
// concurrent use.
type Planner struct {
	tree      *topology.Tree
	resources []string
	isDevice  []bool    // [resource]
	deviceAt  []int     // those resources that are
	free      [][]int64 // [host][resource]
	devices   []int64   // [host] free devices of all kinds
	// totals are free amounts, summed up from the first time that a plan needs them on.
	totals [][][]total // [tier but the last][domain][resource]

	gpus []HostGPUs // [host]; nil while none are known

	empty *Planner // of the same hosts with no pod on them; nil where that is not known

	kinds     []int // [host] position in kindNames; nil while all hosts are alike
	kindNames []string
	ofKind    []int // [kind] how many hosts

	tiers  []stratum // from the cluster to the hosts
	tierOf []int     // [level]

	keep     bool  // false for a single plan, which builds no order
	fewHosts int64 // so many are looked at one by one
	shapes   []*shape
	// changed lists the hosts set since the planner was made, but for the first
	// dropped of them. A shape catches up with it when it is used.
	changed []int32
	dropped int

	marks     marks
	remembers bool // from plan to plan, what hosts have answered
	looked    int  // at so many hosts to pack pods
}

// stratum is a level with its domains. Levels that cut the cluster into the
// same domains are one, the narrowest of them.
type stratum struct {
	level   int
	domains []topology.Domain
	devices []int64 // [domain] free devices; nil for the hosts
}

// NewPlanner takes over free, which callers must not write to any more.
func NewPlanner(tree *topology.Tree, resources []string, free [][]int64) *Planner {
	c := newCapacity(tree, resources, free)
	c.keep, c.fewHosts = true, 64
	return c
}

// newCapacity is O(hosts + domains).
func newCapacity(tree *topology.Tree, resources []string, free [][]int64) *Planner {
	c := &Planner{tree: tree, resources: resources, free: free, isDevice: make([]bool, len(resources))}
	for d, name := range resources {
		if c.isDevice[d] = IsDevice(name); c.isDevice[d] {
			c.deviceAt = append(c.deviceAt, d)
		}
	}
	last := len(tree.Levels()) - 1
	c.tierOf = make([]int, last+1)
	for level := 0; level <= last; level++ {
		c.tierOf[level] = len(c.tiers)
		if level < last && len(tree.Domains(level)) == len(tree.Domains(level+1)) {
			continue
		}
		c.tiers = append(c.tiers, stratum{level: level, domains: tree.Domains(level)})
	}
	c.devices = make([]int64, len(free))
	sums := c.sumUp(func(first, last int) (n int64) {
		for h := first; h < last; h++ {
			c.devices[h] = c.devicesIn(free[h])
			n += c.devices[h]
		}
		return n
	})
	for t := range sums {
		c.tiers[t].devices = sums[t]
	}
	c.marks = newMarks(len(free))
	return c
}

// IsDevice tells devices, which are worth keeping together and for those who
// ask for them, from what every host has: Kubernetes names an extended resource
// with its vendor's domain, and its own without.
func IsDevice(resource string) bool { return strings.Contains(resource, "/") }

// Problem is an empty problem on the cluster as the planner knows it.
func (c *Planner) Problem() Problem {
	return Problem{Tree: c.tree, Resources: c.resources, Free: c.free}
}

// Free is what the host has left. Callers must not write to it.
func (c *Planner) Free(host int) []int64 { return c.free[host] }

// SetFree says what a host has left from now on. O(levels).
func (c *Planner) SetFree(host int, free []int64) {
	if slices.Equal(c.free[host], free) {
		return
	}
	for t, totals := range c.totals {
		for d, n := range free {
			of := &totals[c.domainAt(t, host)][d]
			of.add(max(0, c.free[host][d]), -1)
			of.add(max(0, n), 1)
		}
	}
	c.free[host] = slices.Clone(free)
	devices := c.devicesIn(free)
	for t := range c.tiers[:len(c.tiers)-1] {
		c.tiers[t].devices[c.domainAt(t, host)] += devices - c.devices[host]
	}
	c.devices[host] = devices
	c.changedAt(host)
}

// changedAt has shapes look at the host again.
func (c *Planner) changedAt(host int) {
	if len(c.changed) >= len(c.free) {
		// A shape that is so far behind is cheaper to compute anew.
		c.dropped += len(c.changed)
		c.changed = c.changed[:0]
	}
	c.changed = append(c.changed, int32(host))
}

// Plan answers the problem on this planner's tree and capacity; those of the
// problem itself are not looked at.
func (c *Planner) Plan(p Problem) Decision {
	steps := maxSteps
	d := c.plan(p, finished, &steps)
	if d.Hosts == nil && c.empty != nil {
		d.Empty = c.onEmpty(p)
	}
	return d
}

// aim is what a plan is made for.
type aim int

const (
	feasible aim = iota // to know whether the gang fits
	told                // and if not, why
	finished            // to be carried out: as good as can be
)

// plan may spend so many steps, and takes off what it spends. Choices of kinds
// share them: what one leaves over is for the others.
func (c *Planner) plan(p Problem, aim aim, steps *int) Decision {
	p.Tree, p.Resources, p.Free = c.tree, c.resources, c.free
	if !c.remembers {
		defer c.marks.clear()
	}
	choices, all := c.choices(&p, false)
	best, bounded := c.planWith(choices, p, aim, steps)
	best.Bounded = bounded || !all
	if best.Hosts == nil && aim > feasible && c.kinds != nil {
		first := len(choices)
		if choices, all := c.choices(&p, true); len(choices) > first {
			wider := best.Wider
			bounded := best.Bounded
			best, _ = c.planWith(choices, p, aim, steps)
			best.Wider, best.Bounded, best.Roughly = narrowerOf(wider, best.Wider), bounded, best.Roughly || !all
		}
	}
	if best.Hosts == nil {
		best.Levels = slices.DeleteFunc(best.Levels, func(rj Rejection) bool {
			return best.Wider != nil && c.tree.Domain(rj.Domain).Level <= best.Wider.Level
		})
	}
	return best
}

// planWith takes the best of the choices of kinds.
func (c *Planner) planWith(choices [][]int, p Problem, aim aim, steps *int) (best Decision, bounded bool) {
	var worth objective
	var wider *topology.Domain
	roughly := false
	for i, kinds := range choices {
		share := *steps / (len(choices) - i)
		pl := newPlan(c, &p, kinds, limitsOf(share))
		pl.aim = aim
		d := pl.decide()
		var o objective
		if aim == finished && len(choices) > 1 && d.Hosts != nil {
			o = pl.worthOf(d.Hosts)
		}
		pl.release()
		*steps -= share - max(0, pl.limits.steps)
		bounded, roughly = bounded || d.Bounded, roughly || d.Roughly
		wider = narrowerOf(wider, d.Wider)
		if i == 0 || c.betterChoice(d, best, o, worth) {
			best, worth = d, o
		}
	}
	if best.Hosts == nil {
		best.Wider, best.Roughly = wider, roughly
	}
	return best, bounded
}

// totalOf is how much of a resource is free in a domain. O(hosts) once.
func (c *Planner) totalOf(resource, t, k int) total {
	if c.totals == nil {
		c.totals = make([][][]total, len(c.tiers)-1)
		for t := range c.totals {
			c.totals[t] = make([][]total, len(c.tiers[t].domains))
			for k, d := range c.tiers[t].domains {
				c.totals[t][k] = make([]total, len(c.resources))
				for h := d.First; h < d.Last; h++ {
					for i, n := range c.free[h] {
						c.totals[t][k][i].add(max(0, n), 1)
					}
				}
			}
		}
	}
	return c.totals[t][k][resource]
}

// domainAt is the position within the tier of the host's domain.
func (c *Planner) domainAt(tier, host int) int {
	s := &c.tiers[tier]
	return c.tree.DomainOf(host, s.level) - s.domains[0].ID
}

func (c *Planner) devicesIn(free []int64) int64 {
	n := int64(0)
	for _, d := range c.deviceAt {
		n += min(max(free[d], 0), maxHostDevices)
	}
	return min(n, maxHostDevices)
}

// sumUp adds up a number of every host by the domains of every tier but the last.
// of is asked once for the sum of each of the narrowest, or of the only host.
func (c *Planner) sumUp(of func(first, last int) int64) [][]int64 {
	sums := make([][]int64, len(c.tiers)-1)
	if len(sums) == 0 {
		of(0, len(c.free))
	}
	for t := range slices.Backward(sums) {
		domains, into := c.tiers[t].domains, make([]int64, len(c.tiers[t].domains))
		sums[t] = into
		if t == len(sums)-1 {
			for k := range domains {
				into[k] = of(domains[k].First, domains[k].Last)
			}
			continue
		}
		k := 0
		for i := range c.tiers[t+1].domains {
			for c.tiers[t+1].domains[i].First >= domains[k].Last {
				k++
			}
			into[k] += sums[t+1][i]
		}
	}
	return sums
}
