// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"
)

// reject tells of each domain of the required level what it has room for. Only
// domains that hold the anchors count.
func (pl *planner) reject(minimum []int64) []Rejection {
	t := pl.tierOf[pl.p.Constraint.Required]
	domains := pl.p.Tree.Domains(pl.p.Constraint.Required)
	var list []Rejection
	missing := make(map[int]int)
	for k, d := range domains {
		if !pl.holdsAnchors(d) {
			continue
		}
		rejection := Rejection{Domain: d.ID, Room: make([]int, len(minimum))}
		hosts := pl.hostsOf(t, []int{k})
		short, _ := pl.room.quickly(minimum, hosts, nil, false)
		for r, n := range minimum {
			rejection.Room[r] = int(n - short[r])
			missing[d.ID] += int(short[r])
			if short[r] > 0 {
				rejection.Shortages = append(rejection.Shortages, pl.shortage(r, short[r], hosts))
			}
		}
		list = append(list, rejection)
	}
	slices.SortStableFunc(list, func(a, b Rejection) int {
		return cmp.Compare(missing[a.Domain], missing[b.Domain])
	})
	return list
}

// shortage finds the resource for which the role is short on the hosts, in
// what the packing just done has left. Eligibility does not enter: it is told
// apart, by the exclusions.
func (pl *planner) shortage(role int, pods int64, hosts []int) Shortage {
	s := Shortage{Role: role, Pods: int(pods)}
	scarcest := pods
	for d, request := range pl.p.Roles[role].Request {
		if request <= 0 {
			continue
		}
		slots, total := int64(0), int64(0)
		for _, h := range hosts {
			left := max(0, pl.room.free(h)[d])
			slots += left / request
			total += left
		}
		if slots < scarcest || slots == scarcest && slots < pods && pl.device[d] {
			scarcest = slots
			s.Resource, s.Amount = pl.p.Resources[d], max(0, pods*request-total)
		}
	}
	return s
}
