// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// The benchmarks of make bench-planner, which reads their names. The cluster is
// that of benchProblem, but hosts are whole or taken, as many as load says in
// percent, evenly mixed.
//
//	BenchmarkPass     the measure: slots of all hosts, nothing else
//	BenchmarkGang     Plan, from scratch
//	BenchmarkFirst    a new Planner's first plan, which prepares those to come
//	BenchmarkChanged  a Planner's plan after ten hosts have changed
//
// Loads are those of a gang that fits, or "no": it fits at 80 %, but in no
// domain of the level that it requires.

var gangHosts = []int{100, 1_000, 5_000, 10_000, 20_000, 100_000}

// gangCase is one gang on one cluster.
type gangCase struct {
	hosts, load, pods, roles int
	no                       bool
}

func (c gangCase) String() string {
	load := fmt.Sprintf("%d%%", c.load)
	if c.no {
		load = "no"
	}
	return fmt.Sprintf("hosts=%d/load=%s/pods=%d/roles=%d", c.hosts, load, c.pods, c.roles)
}

func gangCases() []gangCase {
	var cases []gangCase
	for _, hosts := range gangHosts {
		for _, pods := range []int{8, 64, 512, 4_096} {
			for _, roles := range []int{1, 2} {
				for _, load := range []int{0, 80, 95} {
					c := gangCase{hosts: hosts, load: load, pods: pods, roles: roles}
					if wholeHosts(hosts, load) < pods {
						continue
					}
					cases = append(cases, c)
					if load == 80 && hosts >= 1_000 {
						c.no = true
						cases = append(cases, c)
					}
				}
			}
		}
	}
	return cases
}

// isTaken spreads taken hosts over all racks.
func isTaken(host, load int) bool { return host*61%100 < load }

func wholeHosts(hosts, load int) int {
	n := 0
	for h := range hosts {
		if !isTaken(h, load) {
			n++
		}
	}
	return n
}

// gangClusters are built once: 100,000 hosts take longer to build than to plan on.
var gangClusters sync.Map

func (c gangCase) problem() Problem {
	type cluster struct{ hosts, load int }
	cached, ok := gangClusters.Load(cluster{c.hosts, c.load})
	if !ok {
		p := benchProblem(c.hosts)
		for h := range p.Free {
			p.Free[h] = gangFree(isTaken(h, c.load))
		}
		cached, _ = gangClusters.LoadOrStore(cluster{c.hosts, c.load}, p)
		runtime.GC() // what building leaves behind is not for the first benchmark to clear away
	}
	p := cached.(Problem)
	if c.roles == 1 {
		p.Roles = []Role{worker(c.pods)}
	} else {
		p.Roles = []Role{worker(c.pods - c.pods/8), server(c.pods / 8)}
	}
	if c.no {
		// A rack has 50 hosts, a spine 500; 10 and 100 of them are whole.
		p.Constraint.Required, _ = p.Tree.LevelIndex("spine")
		if c.pods <= 64 {
			p.Constraint.Required, _ = p.Tree.LevelIndex("rack")
		}
		if c.pods == 8 {
			p.Roles = []Role{worker(11)}
			if c.roles == 2 {
				p.Roles = []Role{worker(11), server(1)}
			}
		}
	}
	return p
}

func gangFree(taken bool) []int64 {
	if taken {
		return []int64{2_000, 0, 100}
	}
	return []int64{96_000, 8, 110}
}

func BenchmarkPass(b *testing.B) {
	for _, hosts := range gangHosts {
		for _, roles := range []int{1, 2} {
			c := gangCase{hosts: hosts, load: 80, pods: 8, roles: roles}
			b.Run(fmt.Sprintf("hosts=%d/roles=%d", hosts, roles), func(b *testing.B) {
				p := c.problem()
				b.ReportAllocs()
				for b.Loop() {
					total := int64(0)
					for r := range p.Roles {
						slots := make([]int64, len(p.Free))
						for h, free := range p.Free {
							slots[h] = slotsIn(free, p.Roles[r].Request, 0)
							total += slots[h]
						}
					}
					if total == 0 {
						b.Fatal("no slots")
					}
				}
			})
		}
	}
}

func BenchmarkGang(b *testing.B) {
	for _, c := range gangCases() {
		b.Run(c.String(), func(b *testing.B) { benchmark(b, c.problem(), !c.no) })
	}
}

func BenchmarkFirst(b *testing.B) {
	for _, c := range gangCases() {
		if c.hosts != 20_000 || c.no {
			continue
		}
		b.Run(c.String(), func(b *testing.B) {
			p := c.problem()
			b.ReportAllocs()
			for b.Loop() {
				if d := NewPlanner(p.Tree, p.Resources, slices.Clone(p.Free)).Plan(p); d.Hosts == nil {
					b.Fatal(d.Explain(p))
				}
			}
		})
	}
}

func BenchmarkChanged(b *testing.B) {
	for _, c := range gangCases() {
		b.Run(c.String(), func(b *testing.B) {
			p := c.problem()
			planner := NewPlanner(p.Tree, p.Resources, slices.Clone(p.Free))
			// Ten hosts are taken and freed in turn, where there is room for that.
			flip := func(taken bool) {
				for i := range 10 {
					h := i * (c.hosts / 10)
					planner.SetFree(h, gangFree(taken || isTaken(h, c.load)))
				}
			}
			if wholeHosts(c.hosts, c.load) < c.pods+10 {
				b.Skip("no room for changes")
			}
			planner.Plan(p)
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				flip(n%2 == 0)
				if d := planner.Plan(p); (d.Hosts != nil) == c.no || d.Bounded {
					b.Fatal(d.Explain(p))
				}
			}
		})
	}
}
