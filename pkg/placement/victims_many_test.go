// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// crowded is a cluster of which pods of lower priority hold nearly everything: more
// of them than a search can try all sets of. One in forty is of a higher priority.
func crowded(rng *rand.Rand, hosts int) (Problem, []Victim) {
	p := benchProblem(hosts)
	var victims []Victim
	for h := range p.Free {
		p.Free[h] = []int64{96_000, 8, 110}
		for left := int64(8); left > 0; {
			gpus := min(left, int64(1+rng.IntN(8)))
			freed := []int64{gpus * int64(1+rng.IntN(12)) * 1000, gpus, 1}
			for d := range freed {
				p.Free[h][d] -= freed[d]
			}
			left -= gpus
			victims = append(victims, Victim{
				Cost:  Cost{Priority: rng.IntN(40) / 39, Pods: 1, Lost: int64(rng.IntN(20)), Started: int64(len(victims))},
				Frees: []Change{{Host: h, Free: freed}},
			})
		}
	}
	shapes := 1 + rng.IntN(4)
	for r := range shapes {
		pods := 1 + rng.IntN(max(2, hosts/shapes))
		p.Roles = append(p.Roles, Role{Name: string(rune('a' + r)), Pods: pods, Minimum: 1 + rng.IntN(pods),
			Request: []int64{int64(1+rng.IntN(40)) * 1000, int64(rng.IntN(9)), 1}})
	}
	p.Constraint.Required = rng.IntN(3)
	return p, victims
}

// TestNoneOfManyVictimsIsNeedless has more victims than the search has steps for.
func TestNoneOfManyVictimsIsNeedless(t *testing.T) {
	unproven, evictions := 0, 0
	for seed := range 60 {
		rng := rand.New(rand.NewPCG(uint64(seed), 71))
		p, victims := crowded(rng, []int{20, 60, 150}[seed%3])
		d, e := PlanWithVictims(p, victims)
		if d.Hosts != nil {
			checkPlaced(t, evicted(withoutGPUs(p), victims, e.Victims), d)
		}
		checkNoneIsSpared(t, withoutGPUs(p), victims, e)
		evictions += len(e.Victims)
		if !e.Least {
			unproven++
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d evictions; %d sets are not proven least", evictions, unproven)
	if unproven < 10 {
		t.Error("too few to prove anything")
	}
}

func withoutGPUs(p Problem) Problem {
	p.GPUs = make([]HostGPUs, len(p.Free))
	return p
}

// BenchmarkVictimsOnMostHosts evicts a pod from three of four hosts: hosts x 10 is to
// cost little more than x 10.
func BenchmarkVictimsOnMostHosts(b *testing.B) {
	for _, hosts := range []int{500, 5_000} {
		for _, roles := range []int{1, 2} {
			b.Run(fmt.Sprintf("hosts=%d/roles=%d", hosts, roles), func(b *testing.B) {
				p := benchProblem(hosts, worker(hosts*3/4))
				if roles == 2 {
					p.Roles = []Role{worker(hosts/2 + 1), {Name: "ps", Pods: hosts / 4, Minimum: hosts / 4, Request: []int64{90_000, 1, 1}}}
				}
				var victims []Victim
				for h := range p.Free {
					p.Free[h] = []int64{48_000, 0, 60}
					victims = append(victims, Victim{
						Cost:  Cost{Priority: h % 7, Pods: 1, Started: int64(h % 11)},
						Frees: []Change{{Host: h, Free: []int64{48_000, 8, 1}}},
					})
				}
				for b.Loop() {
					if d, e := PlanWithVictims(p, victims); d.Hosts == nil || len(e.Victims) != hosts*3/4/1 && roles == 1 {
						b.Fatalf("%d victims: %s", len(e.Victims), d.Explain(p))
					}
				}
			})
		}
	}
}
