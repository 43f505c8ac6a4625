// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"testing"

	"github.com/tutti-project/tutti/pkg/topology"
)

// To compare a change with what was before it:
//
//	go test ./pkg/placement -run '^$' -bench . -count 10 >old.txt
//	go test ./pkg/placement -run '^$' -bench . -count 10 >new.txt   # with the change
//	go run golang.org/x/perf/cmd/benchstat old.txt new.txt
//
// The cluster has 8 GPUs and 96 cores per host, 50 hosts per rack and 10 racks
// per spine; every third host has lost two GPUs to someone else.

func BenchmarkPlan(b *testing.B) {
	for _, hosts := range []int{100, 1_000, 5_000} {
		for _, pods := range []int{8, 64, 512, 1_000} {
			if pods*3 > hosts*2 {
				continue
			}
			b.Run(fmt.Sprintf("hosts=%d/pods=%d/workers", hosts, pods), func(b *testing.B) {
				benchmark(b, benchProblem(hosts, worker(pods)), true)
			})
			b.Run(fmt.Sprintf("hosts=%d/pods=%d/ps+workers+chief", hosts, pods), func(b *testing.B) {
				benchmark(b, benchProblem(hosts, worker(pods-pods/8-1), server(pods/8), chief()), true)
			})
		}
	}
}

// BenchmarkPlanSmallGangs is one of a thousand gangs of four, on a cluster
// without any level, where every host is a candidate for everything.
func BenchmarkPlanSmallGangs(b *testing.B) {
	for _, hosts := range []int{100, 1_000, 5_000} {
		b.Run(fmt.Sprintf("hosts=%d", hosts), func(b *testing.B) {
			p := benchProblem(hosts, worker(4))
			p.Tree = flatTree(hosts)
			benchmark(b, p, true)
		})
	}
}

// BenchmarkPlanNo is a gang that fits nowhere, for the three reasons there are.
func BenchmarkPlanNo(b *testing.B) {
	for _, hosts := range []int{100, 1_000, 5_000} {
		b.Run(fmt.Sprintf("hosts=%d/sums", hosts), func(b *testing.B) {
			benchmark(b, benchProblem(hosts, worker(hosts)), false)
		})
		b.Run(fmt.Sprintf("hosts=%d/jointly", hosts), func(b *testing.B) {
			// A host takes one worker or one server; there is one server too many.
			whole := hosts - (hosts+2)/3
			benchmark(b, benchProblem(hosts, Role{Name: "worker", Pods: whole, Minimum: whole, Request: []int64{90_000, 8, 1}},
				Role{Name: "ps", Pods: hosts - whole + 1, Minimum: hosts - whole + 1, Request: []int64{90_000, 0, 1}}), false)
		})
		b.Run(fmt.Sprintf("hosts=%d/excluded", hosts), func(b *testing.B) {
			r := worker(4)
			r.Eligible = func(int) (bool, string) { return false, "taint" }
			benchmark(b, benchProblem(hosts, r), false)
		})
	}
}

// BenchmarkPlanExact has to fall back to the exact packing: 20 servers and
// workers of two kinds that compete for cores on every host.
func BenchmarkPlanExact(b *testing.B) {
	for _, hosts := range []int{100, 1_000, 5_000} {
		b.Run(fmt.Sprintf("hosts=%d", hosts), func(b *testing.B) {
			p := benchProblem(hosts, Role{Name: "worker", Pods: hosts, Minimum: hosts, Request: []int64{40_000, 2, 1}},
				Role{Name: "ps", Pods: 20, Minimum: 20, Request: []int64{56_000, 0, 1}})
			benchmark(b, p, true)
		})
	}
}

func benchmark(b *testing.B, p Problem, fits bool) {
	b.ReportAllocs()
	for b.Loop() {
		if d := Plan(p); (d.Hosts != nil) != fits || d.Bounded {
			b.Fatalf("placed: %v, want %v (bounded: %v)", d.Hosts != nil, fits, d.Bounded)
		}
	}
}

func worker(pods int) Role {
	return Role{Name: "worker", Pods: pods, Minimum: pods, Request: []int64{32_000, 8, 1}}
}

func server(pods int) Role {
	return Role{Name: "ps", Pods: pods, Minimum: pods, Request: []int64{8_000, 0, 1}}
}

func chief() Role {
	return Role{Name: "chief", Pods: 1, Minimum: 1, Request: []int64{32_000, 8, 1}}
}

func benchProblem(hosts int, roles ...Role) Problem {
	levels := []topology.Level{{Name: "spine", NodeLabels: []string{"spine"}}, {Name: "rack", NodeLabels: []string{"rack"}}}
	labels := make([]topology.HostLabels, hosts)
	for i := range labels {
		labels[i] = topology.HostLabels{Name: fmt.Sprintf("n%d", i), Labels: map[string]string{
			"spine": fmt.Sprint(i / 500), "rack": fmt.Sprint(i / 50),
		}}
	}
	p := Problem{Tree: topology.New(levels, labels), Resources: []string{"cpu", "nvidia.com/gpu", "pods"}, Roles: roles}
	for i := range hosts {
		gpus := int64(8)
		if i%3 == 0 {
			gpus = 6
		}
		p.Free = append(p.Free, []int64{96_000, gpus, 110})
	}
	return p
}

func flatTree(hosts int) *topology.Tree {
	labels := make([]topology.HostLabels, hosts)
	for i := range labels {
		labels[i].Name = fmt.Sprintf("n%d", i)
	}
	return topology.New(nil, labels)
}

// BenchmarkPlannerAfterChanges plans after ten hosts have changed, each time.
func BenchmarkPlannerAfterChanges(b *testing.B) {
	for _, hosts := range []int{1_000, 20_000, 100_000} {
		for _, tc := range []struct {
			name  string
			flat  bool
			roles []Role
		}{
			{"workers", false, []Role{worker(8)}},
			{"ps+workers", false, []Role{worker(56), server(8)}},
			{"flat", true, []Role{worker(4)}},
			{"no", false, []Role{worker(hosts)}},
		} {
			b.Run(fmt.Sprintf("hosts=%d/%s", hosts, tc.name), func(b *testing.B) {
				p := benchProblem(hosts, tc.roles...)
				if tc.flat {
					p.Tree = flatTree(hosts)
				}
				c := NewPlanner(p.Tree, p.Resources, p.Free)
				b.ReportAllocs()
				for n := 0; b.Loop(); n++ {
					for i := range 10 {
						c.SetFree((n*7919+i*104729)%hosts, []int64{96_000, int64(n+i) % 9, 110})
					}
					if d := c.Plan(p); d.Hosts == nil != (tc.name == "no") {
						b.Fatal(d.Explain(p))
					}
				}
			})
		}
	}
}
