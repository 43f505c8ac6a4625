// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"fmt"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/tutti-project/tutti/pkg/topology"
)

// MayBeIn says whether the host is in the domain that the role is held to, if it is.
func (r Role) MayBeIn(tree *topology.Tree, host int) bool {
	return r.Within == nil || tree.DomainOf(host, tree.Domain(*r.Within).Level) == *r.Within
}

// BesideRunning prepares roles for slices of which some ranks run already. A
// waiting pod joins its slice: pods whose slice runs become roles of their own,
// each held to the domain of the slice level where the slice is. Other pods
// keep their role; their slices are whole.
func BesideRunning(roles []Role, running []*v1.Pod, tree *topology.Tree, size, level int) []Role {
	if size <= 1 || len(running) == 0 {
		return roles
	}
	type slice struct {
		kind  string
		index int
	}
	domains := map[slice]int{}
	for _, pod := range slices.SortedFunc(slices.Values(running), comparePods) { // a slice may stand torn, after an edit of labels

		host, ok := tree.HostIndex(pod.Spec.NodeName)
		if rank := rankOf(pod); ok && rank != math.MaxInt {
			domains[slice{typeOf(pod), rank / size}] = tree.DomainOf(host, level)
		}
	}
	var all []Role
	for _, role := range roles {
		whole := Role{Name: role.Name, Type: role.Type, Request: role.Request}
		var torn []Role
		last := -1
		for _, pod := range role.Pods {
			index := rankOf(pod) / size
			domain, runs := domains[slice{typeOf(pod), index}]
			switch {
			case !runs:
				whole.Pods = append(whole.Pods, pod)
				continue
			case index != last:
				last = index
				torn = append(torn, Role{
					Name: fmt.Sprintf("%s (slice %d)", role.Name, index), Type: role.Type, Request: role.Request, Within: &domain,
				})
			}
			torn[len(torn)-1].Pods = append(torn[len(torn)-1].Pods, pod)
		}
		if len(whole.Pods) > 0 {
			all = append(all, whole)
		}
		all = append(all, torn...)
	}
	return all
}
