// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	"github.com/tutti-project/tutti/pkg/topology"
)

// HostGPUs is what is known of a host's GPUs. Without a model, or where what is
// free disagrees with the free vector, nothing is known of their links: then no
// pod that demands links of several GPUs stands there.
type HostGPUs struct {
	Model    *topology.GPUs // nil for unknown; hosts alike share one
	Resource int            // the entry of the vectors that counts them
	Free     topology.Set   // healthy, and given to no pod
	// Healthy are those that pods hold as well: what may come free.
	Healthy topology.Set
	// PlannerPicks: pods get the GPUs that the decision names. Else the device
	// plugin gives them any, so that links are promised only where all sets that
	// it could pick have them.
	PlannerPicks bool
	// Unknown says, for people, why there is no model.
	Unknown string
}

// unlike says whether it matters which GPUs a pod gets.
func (g HostGPUs) unlike() bool { return g.Model != nil && !g.Model.Uniform() }

// known says whether the set stands for what the vector says is free. Pods on
// their way to the host may be missing in the set only if any set will do.
func (g HostGPUs) known(free []int64) bool {
	if g.Model == nil {
		return false
	}
	n, counted := int64(g.Free.Len()), max(0, free[g.Resource])
	return n == counted || n > counted && !g.PlannerPicks
}

// demands says whether links limit where pods of the role stand.
func (r *Role) demands() bool { return r.Link > 0 && r.Request[r.GPU] > 1 }

// ask is what one pod of the role wants of these GPUs.
func (r *Role) ask(g HostGPUs) topology.Ask {
	return topology.Ask{Size: int(r.Request[g.Resource]), Link: r.Link}
}

// linked is how many pods of a role that demands links the host's GPUs take, up
// to a limit, beside the asks given to others. Vectors see to it that there are
// GPUs for all; pods that demand nothing take what is left.
func (g HostGPUs) linked(role *Role, free []int64, beside []topology.Ask, limit int64) int64 {
	if !g.known(free) || role.GPU != g.Resource {
		return 0
	}
	ask := role.ask(g)
	if !g.unlike() || !g.PlannerPicks {
		if g.Model.Every(g.Free, ask) {
			return limit
		}
		return 0
	}
	asks := slices.Clone(beside)
	for n := range limit {
		if asks = append(asks, ask); !g.Model.Pack(g.Free, asks) {
			return n
		}
	}
	return limit
}

// Promises says whether what is known of the host's GPUs allows a pod of the role
// there, whatever else it takes.
func (c *Planner) Promises(host int, role *Role) bool {
	return !role.demands() || c.GPUs(host).linked(role, c.free[host], nil, 1) > 0
}

// SetGPUs says what is known of a host's GPUs from now on. O(levels).
func (c *Planner) SetGPUs(host int, gpus HostGPUs) {
	if c.gpus == nil {
		if gpus == (HostGPUs{}) {
			return
		}
		c.gpus = make([]HostGPUs, len(c.free))
	}
	if c.gpus[host] != gpus {
		c.gpus[host] = gpus
		c.changedAt(host)
	}
}

// GPUs is what SetGPUs has said of the host.
func (c *Planner) GPUs(host int) HostGPUs {
	if c.gpus == nil {
		return HostGPUs{}
	}
	return c.gpus[host]
}

// gpusOn are the host's GPUs before this plan places anything.
func (pl *plan) gpusOn(host int) HostGPUs {
	g := pl.GPUs(host)
	if change, ok := pl.assumed[host]; ok {
		g = g.after(change, pl.free[host])
	}
	return g
}

// after is what is known when the change has come, of a host that had this free.
// Where nobody says which GPUs come free, and the device plugin picks, any may
// have that are healthy.
func (g HostGPUs) after(change Change, free []int64) HostGPUs {
	switch {
	case change.GPUs != 0 || g.Model == nil || g.PlannerPicks:
		g.Free = change.GPUs
	case change.Free[g.Resource] > free[g.Resource]:
		g.Free = g.Healthy
	}
	return g
}

// slotsBeside is how many more pods of the role fit into what is left of the
// host's vector, beside those of each role that it has taken.
func (pl *plan) slotsBeside(role, host int, left, taken []int64) int64 {
	n := pl.slotsIn(left, role)
	if n == 0 || pl.shapes[role].link == 0 {
		return n
	}
	g := pl.gpusOn(host)
	var beside []topology.Ask
	for r, pods := range taken {
		for range pods {
			if other := &pl.p.Roles[r]; other.demands() {
				beside = append(beside, other.ask(g))
			}
		}
	}
	return g.linked(&pl.p.Roles[role], pl.freeOn(host), beside, n)
}

// pickGPUs names the GPUs of pods on hosts where it matters which they get:
// those that the planner picks, and those that are all there is.
func (pl *plan) pickGPUs(hosts [][]int) [][]topology.Set {
	if pl.gpus == nil {
		return nil
	}
	type pod struct{ role, rank int }
	on, picked := make(map[int][]pod), false
	sets := make([][]topology.Set, len(hosts))
	for r, ranks := range hosts {
		sets[r] = make([]topology.Set, len(ranks))
		for rank, h := range ranks {
			if h == Unplaced || !pl.gpusOn(h).unlike() || !pl.gpusOn(h).known(pl.freeOn(h)) {
				continue
			}
			if pl.p.Roles[r].Request[pl.gpusOn(h).Resource] > 0 {
				on[h] = append(on[h], pod{r, rank})
			}
		}
	}
	for h, pods := range on { // each by itself: the order does not matter
		g := pl.gpusOn(h)
		var asks []topology.Ask
		for _, pod := range pods {
			asks = append(asks, pl.p.Roles[pod.role].ask(g))
		}
		if !g.PlannerPicks && (len(asks) > 1 || asks[0].Size < g.Free.Len()) {
			continue
		}
		for i, set := range g.Model.Choose(g.Free, asks) {
			sets[pods[i].role][pods[i].rank] = set
			picked = true
		}
	}
	if !picked {
		return nil
	}
	return sets
}
