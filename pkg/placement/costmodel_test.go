// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// exchange places so many workers and servers on the hosts of racks of two, four
// hosts in all, and returns what the most loaded uplink of a rack and of a host
// carries, in parts of the model: with P servers, 1/P of it.
func exchange(workers, servers [4]int) (rack, host int64) {
	p := problemOf([]drawnHost{
		racked("n0", "0"), racked("n1", "0"), racked("n2", "1"), racked("n3", "1"),
	}, []Role{{Name: "worker", Request: []int64{1, 0, 0}}, {Name: "ps", Request: []int64{1, 0, 0}, Serves: true}}, Constraint{}, nil)
	var ranks [2][]int
	for r, counts := range [][4]int{workers, servers} {
		for h, n := range counts {
			ranks[r] = append(ranks[r], slices.Repeat([]int{h}, n)...)
		}
	}
	c := newCapacity(p.Tree, p.Resources, p.Free)
	pl := newPlan(c, &p, []int{anyKind, anyKind}, limitsOf(maxSteps))
	defer pl.release()
	o := pl.worthOf(ranks[:])
	return o[len(o)-3], o[len(o)-1]
}

func racked(name, rack string) drawnHost {
	h := drawnHost{free: []int64{1 << 20, 0, 0}, not: []bool{false, false}}
	h.Name, h.Labels = name, map[string]string{"spine": rack, "rack": rack}
	return h
}

// TestLoadOfUplinks holds the cost model's numbers for parameter servers. A domain
// with the part x of all W workers and the part F of the model carries, in each
// direction, W (x (1-F) + (1-x) F) models.
func TestLoadOfUplinks(t *testing.T) {
	for _, tc := range []struct {
		name             string
		workers, servers [4]int
		rack, host       string // in models
	}{
		{"all in one rack, F = x = 1", [4]int{4, 4}, [4]int{2, 2}, "0", "4"},
		{"servers in the other rack, x = 1, F = 0", [4]int{4, 4}, [4]int{0, 0, 2, 2}, "8", "4"},
		{"in proportion, F = x = 1/2: 2 W x (1-x)", [4]int{2, 2, 2, 2}, [4]int{1, 1, 1, 1}, "4", "3"},
		{"all with half of the workers, F = 1", [4]int{2, 2, 2, 2}, [4]int{2, 2}, "4", "4"},
		{"all on one host: the sum is the same, the most is not", [4]int{2, 2, 2, 2}, [4]int{4}, "4", "6"},
		{"F = x = 3/4: 2 W 3/4 1/4", [4]int{3, 3, 1, 1}, [4]int{2, 1, 1, 0}, "3", "4"},
		{"the majority's rack, x = 3/4, F = 1", [4]int{3, 3, 1, 1}, [4]int{2, 2}, "2", "4"},
		{"the minority's, F = 0", [4]int{3, 3, 1, 1}, [4]int{0, 0, 2, 2}, "6", "4"},
		{"one server beside one of three workers", [4]int{1, 1, 1}, [4]int{1}, "1", "2"},
	} {
		rack, host := exchange(tc.workers, tc.servers)
		parts := 0
		for _, n := range tc.servers {
			parts += n
		}
		models := func(load int64) string { return fmt.Sprint(float64(load) / float64(parts)) }
		if models(rack) != tc.rack || models(host) != tc.host {
			t.Errorf("%s: a rack's uplink carries %s, a host's %s; want %s and %s", tc.name, models(rack), models(host), tc.rack, tc.host)
		}
	}
}

// TestLoadIsThatOfTheFormulas compares random placements with both formulas: that of
// a domain, by parts of workers and model, and that of a host, by counts.
func TestLoadIsThatOfTheFormulas(t *testing.T) {
	for seed := range 500 {
		rng := rand.New(rand.NewPCG(uint64(seed), 61))
		var workers, servers [4]int
		w, p := 0, 0
		for h := range workers {
			workers[h], servers[h] = rng.IntN(5), rng.IntN(3)
			w, p = w+workers[h], p+servers[h]
		}
		if w == 0 || p == 0 {
			continue
		}
		rack, host := exchange(workers, servers)
		wantRack, wantHost := 0.0, 0.0
		for _, r := range []int{0, 2} {
			x, f := float64(workers[r]+workers[r+1])/float64(w), float64(servers[r]+servers[r+1])/float64(p)
			wantRack = max(wantRack, float64(w)*(x*(1-f)+(1-x)*f))
		}
		for h := range workers {
			held := float64(servers[h]) / float64(p)
			wantHost = max(wantHost, held*float64(w-workers[h])+float64(workers[h])*(1-held))
		}
		if d := wantRack*float64(p) - float64(rack); d > 1e-6 || d < -1e-6 {
			t.Errorf("workers %v, servers %v: a rack's uplink carries %d parts of %d, want %f models", workers, servers, rack, p, wantRack)
		}
		if d := wantHost*float64(p) - float64(host); d > 1e-6 || d < -1e-6 {
			t.Errorf("workers %v, servers %v: a host's uplink carries %d parts of %d, want %f models", workers, servers, host, p, wantHost)
		}
	}
}

// TestRingsCrossEveryUplinkTwice: ranks are contiguous by domain, so a ring over them
// enters a domain once and leaves it once, however many ranks it has inside.
func TestRingsCrossEveryUplinkTwice(t *testing.T) {
	rings, crossed := 0, 0
	for seed := range 2_000 {
		c := drawCluster(rand.New(rand.NewPCG(uint64(seed), 67)))
		c.constraint.SliceSize = 0
		p := c.problem()
		for r, ranks := range Plan(p).Hosts {
			ring := slices.DeleteFunc(slices.Clone(ranks), func(h int) bool { return h == Unplaced })
			if len(ring) < 2 {
				continue
			}
			rings++
			for level := 1; level < len(p.Tree.Levels()); level++ {
				crossings := map[int]int{} // of the uplink of a domain
				for i, h := range ring {
					here, next := p.Tree.DomainOf(h, level), p.Tree.DomainOf(ring[(i+1)%len(ring)], level)
					if here != next {
						crossings[here]++
						crossings[next]++
					}
				}
				for domain, n := range crossings {
					crossed++
					if n != 2 {
						t.Errorf("seed %d: the ring of role %d crosses the uplink of %s %d times", seed, r, p.Tree.Describe(domain), n)
					}
				}
			}
		}
	}
	t.Logf("%d rings, %d uplinks", rings, crossed)
	if rings < 500 || crossed < 500 {
		t.Error("too few")
	}
}
