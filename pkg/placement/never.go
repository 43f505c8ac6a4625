// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import "slices"

// SetEmpty says what a host would have with no pod on it, from now on. If it is
// said of one host it has to be of all, and after their kinds and GPUs. O(levels).
func (c *Planner) SetEmpty(empty Change) {
	if c.empty == nil {
		nothing := make([][]int64, len(c.free))
		for h := range nothing {
			nothing[h] = make([]int64, len(c.resources))
		}
		c.empty = NewPlanner(c.tree, c.resources, nothing)
		c.empty.keep = c.keep
	}
	h := empty.Host
	c.empty.SetFree(h, empty.Free)
	c.empty.SetKind(h, c.KindOf(h))
	gpus := c.GPUs(h)
	// Which of its GPUs others leave to a pod is not for an empty host to say: any
	// set that will do might be what is left.
	gpus.Free, gpus.PlannerPicks = empty.GPUs, true
	c.empty.SetGPUs(h, gpus)
}

// Empty is what SetEmpty has said of the host, and whether it has been called.
func (c *Planner) Empty(host int) (Change, bool) {
	if c.empty == nil {
		return Change{}, false
	}
	return Change{Host: host, Free: c.empty.free[host], GPUs: c.empty.GPUs(host).Free}, true
}

// onEmpty plans the minimum of a gang as if it were alone in the cluster, but for
// where its own pods run. Links that are not certain, or not known, are not held
// against it; but then it is not said that it would fit.
func (c *Planner) onEmpty(p Problem) *Decision {
	p.Changes = nil
	p.Roles = slices.Clone(p.Roles)
	links := make([]bool, len(p.Roles))
	for r := range p.Roles {
		role := &p.Roles[r]
		role.Pods, role.Eligible = min(role.Pods, role.Minimum), role.EligibleEmpty
		if links[r] = role.demands(); links[r] && c.empty.guesses(role) {
			role.Link = 0
		}
	}
	steps := maxSteps
	d := c.empty.plan(p, told, &steps)
	for r, ranks := range d.Hosts {
		if links[r] && slices.ContainsFunc(ranks, func(h int) bool { return c.empty.GPUs(h).Model == nil || c.empty.GPUs(h).unlike() }) {
			return nil
		}
	}
	return &d
}

// guesses: of some host with room for a pod it is not known how its GPUs are linked.
func (c *Planner) guesses(role *Role) bool {
	for h, free := range c.free {
		g := c.GPUs(h)
		if free[role.GPU] >= role.Request[role.GPU] && (g.Resource != role.GPU || !g.known(free)) {
			return true
		}
	}
	return false
}

// Never says that the gang would not fit either if all other pods were gone.
func (d Decision) Never() bool { return d.Empty != nil && d.Empty.Hosts == nil && !d.Empty.Bounded }

// everEmpty: ", and no more if it were empty".
func (d Decision) everEmpty(p Problem) string {
	switch {
	case d.Empty == nil || d.Empty.Hosts == nil && (d.Empty.Bounded || len(d.Empty.Rejections) == 0):
		return ""
	case d.Empty.Hosts != nil:
		return "; without other pods " + p.Tree.Describe(d.Empty.Domain) + " would take it"
	}
	now, then := d.Rejections[0], d.Empty.Rejections[0]
	if then.AtLeast || d.Empty.Roughly {
		return ""
	}
	if now.Domain == then.Domain && now.missing() == then.missing() {
		return ", and no more if it were empty"
	}
	return "; without any other pods " + p.Tree.Describe(then.Domain) + " would still only have room for " + d.Empty.room(p)
}
