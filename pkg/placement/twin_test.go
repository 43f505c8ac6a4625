// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"

	"github.com/tutti-project/tutti/pkg/topology"
)

// The twin is the planner's specification in its dumbest form: it tries every
// host for every pod. It shares no code with the planner but the types.

// twinFits says whether the hosts hold the wanted pods of all roles at once.
func twinFits(p Problem, want []int, hosts []int) bool {
	free := make([][]int64, len(p.Free))
	for h := range p.Free {
		free[h] = slices.Clone(p.Free[h])
	}
	sets := make([]topology.Set, len(p.Free)) // GPUs that no pod has taken for its links
	for h := range p.GPUs {
		sets[h] = p.GPUs[h].Free
	}
	kinds := make([]string, len(want)) // of the role's first host
	// Pods of a role are alike, so only assignments with ascending hosts count.
	var try func(role, pod, from int) bool
	try = func(role, pod, from int) bool {
		if role == len(want) {
			return true
		}
		if pod == want[role] {
			return try(role+1, 0, 0)
		}
		n, slice := p.Constraint.SliceSize, -1
		if n > 1 {
			if pod%n == 0 {
				from = 0 // another slice, anywhere
			} else {
				slice = p.Tree.DomainOf(hosts[from], p.Constraint.SliceLevel)
			}
		}
		for i := from; i < len(hosts); i++ {
			h := hosts[i]
			if slice >= 0 && slice != p.Tree.DomainOf(h, p.Constraint.SliceLevel) || !twinEligible(p.Roles[role], h) || !twinHasRoom(p.Roles[role], free[h]) {
				continue
			}
			if !twinIsOfKind(p, role, pod, h, kinds, func(r int) int { return want[r] }) {
				continue
			}
			twinTake(p.Roles[role], free[h], 1)
			for _, set := range twinSets(p, role, h, sets[h]) {
				sets[h] &^= set
				if try(role, pod+1, i) {
					return true
				}
				sets[h] |= set
			}
			twinTake(p.Roles[role], free[h], -1)
		}
		return false
	}
	return try(0, 0, 0)
}

// twinSets lists what a pod may take of the host's GPUs for the sake of its
// links: nothing if it demands none, or if all sets that someone else may pick
// have them.
func twinSets(p Problem, role, host int, left topology.Set) []topology.Set {
	r := p.Roles[role]
	if r.Link == 0 || r.Request[r.GPU] < 2 {
		return []topology.Set{0}
	}
	if p.GPUs == nil || !twinKnows(p, host) || p.GPUs[host].Resource != r.GPU {
		return nil
	}
	g := p.GPUs[host]
	from := left
	if !g.PlannerPicks {
		from = g.Free
	}
	all, good := 0, []topology.Set(nil)
	for set := from; set != 0; set = (set - 1) & from {
		if int64(set.Len()) == r.Request[r.GPU] {
			all++
			if g.Model.Satisfies(set, r.Link) {
				good = append(good, set)
			}
		}
	}
	switch {
	case g.PlannerPicks:
		return good
	case len(good) == all:
		return []topology.Set{0}
	default:
		return nil
	}
}

func twinKnows(p Problem, host int) bool {
	g := p.GPUs[host]
	if g.Model == nil {
		return false
	}
	counted := int(max(0, p.Free[host][g.Resource]))
	return g.Free.Len() == counted || g.Free.Len() > counted && !g.PlannerPicks
}

// twinIsOfKind holds a uniform role to the kind of its first host, or of that
// of an earlier one of its family.
func twinIsOfKind(p Problem, role, pod, host int, kinds []string, placed func(role int) int) bool {
	if !p.Roles[role].Uniform {
		return true
	}
	if p.Kinds == nil {
		return p.Roles[role].Kind == ""
	}
	if pod == 0 {
		kinds[role] = cmp.Or(p.Roles[role].Kind, p.Kinds[host])
		for r, other := range p.Roles[:role] {
			if other.Uniform && other.Family != "" && other.Family == p.Roles[role].Family && placed(r) > 0 {
				kinds[role] = kinds[r]
			}
		}
	}
	return kinds[role] == p.Kinds[host]
}

func twinEligible(r Role, host int) bool {
	if r.Eligible == nil {
		return true
	}
	ok, _ := r.Eligible(host)
	return ok
}

func twinHasRoom(r Role, free []int64) bool {
	for d, request := range r.Request {
		if request > 0 && free[d] < request {
			return false
		}
	}
	return true
}

func twinTake(r Role, free []int64, pods int64) {
	for d, request := range r.Request {
		free[d] -= request * pods
	}
}

// twinCandidates lists the host ranges of the level that hold all anchors.
func twinCandidates(p Problem, level int) [][]int {
	var all [][]int
	for _, d := range p.Tree.Domains(level) {
		hosts := twinHosts(d.First, d.Last)
		if !slices.ContainsFunc(p.Anchors, func(h int) bool { return !slices.Contains(hosts, h) }) {
			all = append(all, hosts)
		}
	}
	return all
}

func twinHosts(first, last int) []int {
	var hosts []int
	for h := first; h < last; h++ {
		hosts = append(hosts, h)
	}
	return hosts
}

// twinLevel is the narrowest level, from the given one up to the required one,
// of which a domain holds the wanted pods.
func twinLevel(p Problem, want []int, from int) (int, bool) {
	for level := from; level >= p.Constraint.Required; level-- {
		for _, hosts := range twinCandidates(p, level) {
			if twinFits(p, want, hosts) {
				return level, true
			}
		}
	}
	return 0, false
}

// twinMost is how many of the wanted pods the hosts hold, of all roles together.
func twinMost(p Problem, want []int, hosts []int) int {
	most := 0
	var try func(r int, part []int)
	try = func(r int, part []int) {
		if r < len(want) {
			for n := range want[r] + 1 {
				try(r+1, append(part, n))
			}
			return
		}
		if n := podsIn(part); n > most && twinFits(p, part, hosts) {
			most = n
		}
	}
	try(0, nil)
	return most
}

// twinFewest is the least number of the level's domains, all within one domain
// of the outer level, that together hold the wanted pods.
func twinFewest(p Problem, want []int, outer, level int) int {
	least := len(p.Free) + 1
	for _, around := range p.Tree.Domains(outer) {
		var parts [][]int
		for _, d := range p.Tree.Domains(level) {
			if around.First <= d.First && d.Last <= around.Last {
				parts = append(parts, twinHosts(d.First, d.Last))
			}
		}
		for set := range 1 << len(parts) {
			var hosts []int
			size := 0
			for i, part := range parts {
				if set&(1<<i) != 0 {
					hosts = append(hosts, part...)
					size++
				}
			}
			if size < least && twinFits(p, want, hosts) {
				least = size
			}
		}
	}
	return least
}
