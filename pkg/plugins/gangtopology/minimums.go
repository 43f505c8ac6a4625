// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	"github.com/tutti-project/tutti/pkg/clusterview"
	"github.com/tutti-project/tutti/pkg/placement"
)

// maxSplits bounds the plans that are made to find out which shapes of pods meet
// a role's minimum.
const maxSplits = 32

// quota is how many of the waiting pods of one replica type the gang needs. The
// type's pods come in one shape as a rule, and make one role of the planner; if
// they come in several, it does not matter which of them meet the minimum.
type quota struct {
	kind  string // the replica type
	roles []int  // of the planner
	pods  int
}

// quotasOf splits the number of pods that must be placed over the replica types:
// all pods of every type, less what the gang may lack, which is taken from the
// largest type, that of the workers as a rule, but never below its own minimum.
// A gang of which nothing runs yet waits until each type has the pods of its
// minimum; once a part runs it must be able to go on with the pods that it still
// has: others may have succeeded.
func quotasOf(roles []clusterview.Role, wanted int, minimums []clusterview.RoleMinimum, running []*v1.Pod) (quotas []quota, lack string) {
	var sizes []int
	for i, role := range roles {
		at := slices.IndexFunc(quotas, func(q quota) bool { return q.kind == role.Type })
		if at < 0 {
			at = len(quotas)
			quotas, sizes = append(quotas, quota{kind: role.Type}), append(sizes, 0)
		}
		quotas[at].roles = append(quotas[at].roles, i)
		sizes[at] += len(role.Pods)
	}
	floors := make([]int, len(quotas))
	for _, m := range minimums {
		left, exist := m.Pods, 0
		for _, pod := range running {
			if pod.Labels[kubeflowv1.ReplicaTypeLabel] == m.Type {
				left--
			}
		}
		if at := slices.IndexFunc(quotas, func(q quota) bool { return q.kind == m.Type }); at >= 0 {
			exist = sizes[at]
			floors[at] = min(max(left, 0), exist)
		}
		if left > exist && len(running) == 0 {
			return nil, fmt.Sprintf("%d of the minimum of %d pods of role %s exist", exist, m.Pods, m.Type)
		}
	}
	for at, pods := range leveled(sizes, floors, wanted) {
		quotas[at].pods = pods
	}
	return quotas, ""
}

// leveled takes one after the other from the largest until so many are left as
// are wanted, or all are down to their floors. Of equal ones it takes from the
// one that was larger, then from the last.
func leveled(sizes, floors []int, wanted int) []int {
	left := slices.Clone(sizes)
	extras := -wanted
	for _, n := range sizes {
		extras += n
	}
	for ; extras > 0; extras-- {
		largest := -1
		for i, n := range left {
			if n > floors[i] && (largest < 0 || n > left[largest] || n == left[largest] && sizes[i] >= sizes[largest]) {
				largest = i
			}
		}
		if largest < 0 {
			break
		}
		left[largest]--
	}
	return left
}

// split gives the planner's roles their minimums, none more than its cap: first
// the shape given, if any, then all alike.
func (g *gathered) split(caps []int, first int) {
	for _, q := range g.quotas {
		sizes, floors := make([]int, len(q.roles)), make([]int, len(q.roles))
		for i, r := range q.roles {
			sizes[i] = caps[r]
			if r == first {
				floors[i] = min(caps[r], q.pods)
			}
		}
		for i, pods := range leveled(sizes, floors, q.pods) {
			g.problem.Roles[q.roles[i]].Minimum = pods
		}
	}
}

// sizes are how many pods the planner's roles have.
func (g *gathered) sizes() []int {
	sizes := make([]int, len(g.roles))
	for r, role := range g.roles {
		sizes[r] = len(role.Pods)
	}
	return sizes
}

// plan asks the planner. Where it says no and pods of one replica type come in
// several shapes, it asks again with the minimum on those shapes that have room:
// after each no the ones that were short give way, first from an even split, then
// with each shape in turn given all that it can take. What is found is right; that
// nothing is found does not prove that there is nothing.
func (g *gathered) plan() placement.Decision {
	even := g.planner.Plan(g.problem)
	if even.Hosts != nil || !g.hasChoice() {
		return even
	}
	tries := maxSplits
	for first := -1; first < len(g.roles); first++ {
		if first >= 0 && !g.mayLead(first) {
			continue
		}
		caps, decision := g.sizes(), even
		if first >= 0 {
			g.split(caps, first)
			decision = g.planner.Plan(g.problem)
			tries--
		}
		for ; decision.Hosts == nil && tries > 0 && g.giveWay(caps, decision); tries-- {
			g.split(caps, first)
			decision = g.planner.Plan(g.problem)
		}
		if decision.Hosts != nil {
			return decision
		}
		if tries <= 0 {
			break
		}
	}
	g.split(g.sizes(), -1)
	return even
}

// giveWay lowers the caps of the shapes that were short of room in the nearest
// domain, and tells whether that may help.
func (g *gathered) giveWay(caps []int, no placement.Decision) bool {
	if len(no.Rejections) == 0 {
		return false
	}
	moved := false
	for _, q := range g.quotas {
		left := 0
		for _, r := range q.roles {
			if room := no.Rejections[0].Room[r]; room < g.problem.Roles[r].Minimum {
				moved = moved || room < caps[r]
				caps[r] = min(caps[r], room)
			}
			left += caps[r]
		}
		if left < q.pods {
			return false
		}
	}
	return moved
}

// hasChoice tells whether some minimum may be met by other pods than it is.
func (g *gathered) hasChoice() bool {
	for r := range g.roles {
		if g.mayLead(r) {
			return true
		}
	}
	return false
}

// mayLead tells whether the role is one of several shapes of a replica type of
// which not all pods are needed.
func (g *gathered) mayLead(role int) bool {
	for _, q := range g.quotas {
		if slices.Contains(q.roles, role) {
			pods := 0
			for _, r := range q.roles {
				pods += len(g.roles[r].Pods)
			}
			return len(q.roles) > 1 && 0 < q.pods && q.pods < pods
		}
	}
	return false
}

// needs tells whether any pod must be placed: if not, all that wait are extras.
func (g *gathered) needs() bool {
	return slices.ContainsFunc(g.quotas, func(q quota) bool { return q.pods > 0 })
}
