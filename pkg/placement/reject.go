// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"
)

// reject tells of each domain of the required level what it has room for. Only
// domains that hold the anchors count. Hosts not asked yet count as eligible,
// except in the first: it is what people read, so it is asked until it stands.
func (pl *planner) reject(minimum []int64) []Rejection {
	list := make([]Rejection, 0)
	for k, d := range pl.p.Tree.Domains(pl.p.Constraint.Required) {
		if pl.holdsAnchors(d) {
			list = append(list, pl.rejection(k, minimum, false))
		}
	}
	nearer := func(a, b Rejection) int {
		return cmp.Or(cmp.Compare(a.missing(), b.missing()), cmp.Compare(a.Domain, b.Domain))
	}
	slices.SortFunc(list, nearer)
	first := pl.p.Tree.Domains(pl.p.Constraint.Required)[0].ID
	for len(list) > 0 {
		asked := pl.rejection(list[0].Domain-first, minimum, true)
		i, _ := slices.BinarySearchFunc(list[1:], asked, nearer)
		copy(list, list[1:i+1])
		list[i] = asked
		if i == 0 {
			break
		}
	}
	return list
}

func (rj Rejection) missing() int {
	n := 0
	for _, s := range rj.Shortages {
		n += s.Pods
	}
	return n
}

// rejection packs what fits into the k-th domain of the required level.
func (pl *planner) rejection(k int, minimum []int64, ask bool) Rejection {
	d := pl.p.Tree.Domains(pl.p.Constraint.Required)[k]
	rj := Rejection{Domain: d.ID, Room: make([]int, len(minimum))}
	hosts := pl.hostsOf(pl.tierOf[pl.p.Constraint.Required], []int{k})
	short, _ := pl.room.quickly(minimum, hosts, nil, ask)
	for r, n := range minimum {
		rj.Room[r] = int(n - short[r])
		if short[r] > 0 {
			rj.Shortages = append(rj.Shortages, pl.shortage(r, short[r], hosts))
		}
	}
	return rj
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
