// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestServersCarryLeast compares the load of the uplinks with that of every
// other way to place the servers on the hosts that they may move to.
func TestServersCarryLeast(t *testing.T) {
	n := 3_000
	if testing.Short() {
		n = 300
	}
	compared, best := 0, 0
	for seed := range n {
		rng := rand.New(rand.NewPCG(uint64(seed), 47))
		p := serverProblem(rng)
		d := Plan(p)
		if d.Hosts == nil || slices.Contains(d.Hosts[0], Unplaced) || slices.Contains(d.Hosts[1], Unplaced) {
			continue
		}
		checkPlaced(t, p, d)
		compared++
		got, least := twinLoads(p, d), twinLeastLoads(p, d)
		switch c := slices.Compare(got, least); {
		case c == 0:
			best++
		case got[len(got)-1] > 2*least[len(least)-1]+2:
			t.Errorf("seed %d: uplinks carry %v, but %v is possible\n%v\n%s", seed, got, least, d.Hosts, draw(p))
		}
	}
	t.Logf("%d placements, %d of them carry least on every level", compared, best)
	if compared < n/3 || best*1000 < compared*990 {
		t.Error("too few")
	}
}

func serverProblem(rng *rand.Rand) Problem {
	p := benchProblem(0, Role{Name: "worker", Pods: 1 + rng.IntN(8), Request: []int64{4_000, 1, 1}}, Role{Name: "ps", Pods: 1 + rng.IntN(4), Request: []int64{4_000, 0, 1}, Serves: true})
	var hosts []drawnHost
	for i := range 6 {
		h := drawHost(rng, i, 16, 2)
		h.free, h.kind, h.not = []int64{int64(2+rng.IntN(4)) * 4_000, int64(rng.IntN(4)), 110}, "", []bool{false, false}
		hosts = append(hosts, h)
	}
	for r := range p.Roles {
		p.Roles[r].Minimum = p.Roles[r].Pods
	}
	return problemOf(hosts, p.Roles, Constraint{}, nil)
}

// twinLoads is what the most loaded uplink of each level carries.
func twinLoads(p Problem, d Decision) []int64 {
	var loads []int64
	for level := 1; level < len(p.Tree.Levels()); level++ {
		most := int64(0)
		for _, dom := range p.Tree.Domains(level) {
			var inside [2]int64
			for r := range inside {
				for _, h := range d.Hosts[r] {
					if dom.First <= h && h < dom.Last {
						inside[r]++
					}
				}
			}
			workers, servers := int64(len(d.Hosts[0])), int64(len(d.Hosts[1]))
			w, s := inside[0], inside[1]
			most = max(most, w*(servers-s)+s*(workers-w))
		}
		loads = append(loads, most)
	}
	return loads
}

// twinLeastLoads tries every place of the servers among the hosts that the gang
// uses and that have no devices left, or servers already.
func twinLeastLoads(p Problem, d Decision) []int64 {
	left := cloned(p.Free)
	for _, h := range d.Hosts[0] {
		twinTake(p.Roles[0], left[h], 1)
	}
	var hosts []int
	for h := range left {
		if slices.Contains(d.Hosts[1], h) || slices.Contains(d.Hosts[0], h) && left[h][1] == 0 {
			hosts = append(hosts, h)
		}
	}
	least := twinLoads(p, d)
	servers := make([]int, 0, len(d.Hosts[1]))
	var try func(from int)
	try = func(from int) {
		if len(servers) == len(d.Hosts[1]) {
			if loads := twinLoads(p, Decision{Hosts: [][]int{d.Hosts[0], servers}}); slices.Compare(loads, least) < 0 {
				least = loads
			}
			return
		}
		for i := from; i < len(hosts); i++ {
			if h := hosts[i]; twinHasRoom(p.Roles[1], left[h]) {
				twinTake(p.Roles[1], left[h], 1)
				servers = append(servers, h)
				try(i)
				servers = servers[:len(servers)-1]
				twinTake(p.Roles[1], left[h], -1)
			}
		}
	}
	try(0)
	return least
}
