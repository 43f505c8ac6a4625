// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestSplitTakesTheFewestEqualPods(t *testing.T) {
	for gpus, want := range map[int][2]int{1: {1, 1}, 7: {1, 7}, 8: {1, 8}, 12: {2, 6}, 20: {4, 5}, 64: {8, 8}, 512: {64, 8}} {
		if pods, each := split(gpus); [2]int{pods, each} != want {
			t.Errorf("%d GPUs: %d pods of %d, want %v", gpus, pods, each, want)
		}
	}
}

func TestCrossingsCloseTheRing(t *testing.T) {
	of := []int{0, 0, 1, 1}
	for want, hosts := range map[int][]int{0: {0, 1}, 2: {0, 1, 2, 3}, 4: {0, 2, 1, 3}} {
		if got := crossings(hosts, of); got != want {
			t.Errorf("ring over %v crosses %d times, want %d", hosts, got, want)
		}
	}
}

// TestPoliciesPlaceAllOrNothing lets every policy fill the cluster with gangs of
// all sizes, and give some of them back.
func TestPoliciesPlaceAllOrNothing(t *testing.T) {
	f, err := loadFabric()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range policies {
		for _, required := range []bool{false, true} {
			rng := rand.New(rand.NewPCG(1, 1))
			c := newCluster(f)
			for range 1_500 {
				pods, each := split(1 << rng.IntN(8))
				g := gang{pods: pods, gpus: each}
				hosts := p.place(c, g, required, rng)
				fits := c.slots(0, f.hosts(), each) >= pods
				if required {
					fits = false
					for _, d := range f.leaves {
						fits = fits || c.slots(d.First, d.Last, each) >= pods
					}
				}
				switch {
				case (hosts != nil) != fits:
					t.Fatalf("%s, leaf required %v, %+v: placed %v, but it fits: %v", p.name, required, g, hosts != nil, fits)
				case hosts == nil:
					continue
				case len(hosts) != pods:
					t.Fatalf("%s: %d hosts for %d pods", p.name, len(hosts), pods)
				case required && distinct(hosts, f.leafOf) != 1:
					t.Fatalf("%s: more than one leaf", p.name)
				}
				c.take(hosts, each) // panics beyond a host's GPUs
				if rng.IntN(4) == 0 {
					c.give(hosts, each)
				}
			}
		}
	}
}

func TestCompressReachesTheUtilisation(t *testing.T) {
	f, err := loadFabric()
	if err != nil {
		t.Fatal(err)
	}
	jobs, gaps, err := loadTrace()
	if err != nil {
		t.Fatal(err)
	}
	gpus := f.hosts() * gpusPerHost
	w := compress(newShape(jobs, gaps, 8, 0, 1), gpus, 0.95)
	if got := utilisation(w, gpus); math.Abs(got-0.95) > 0.002 {
		t.Errorf("the pool is used to %.4f, want 0.95", got)
	}
	before := 0.0
	for _, g := range w.gangs {
		if g.arrives < before {
			t.Fatal("gangs are not in order of arrival")
		}
		before = g.arrives
	}
}
