// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"
	"testing"
)

// BenchmarkRefusal is a kept planner's "no" after ten hosts have changed, and the
// same by one that knows what hosts have with no pod on them.
func BenchmarkRefusal(b *testing.B) {
	for _, pods := range []int{8, 64, 512} {
		for _, name := range []string{"now", "now or never"} {
			c := gangCase{hosts: 20_000, load: 80, pods: pods, roles: 2, no: true}
			b.Run(c.String()+"/"+name, func(b *testing.B) {
				p := c.problem()
				planner := NewPlanner(p.Tree, p.Resources, slices.Clone(p.Free))
				if name != "now" {
					for h := range p.Free {
						planner.SetEmpty(Change{Host: h, Free: gangFree(false)})
					}
				}
				planner.Plan(p)
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					for n := range 10 {
						h := (i*10 + n) * 7919 % c.hosts
						planner.SetFree(h, gangFree((i+n)%2 == 0))
						planner.SetFree(h, gangFree(isTaken(h, c.load)))
					}
					if d := planner.Plan(p); d.Hosts != nil {
						b.Fatal("it fits")
					}
				}
			})
		}
	}
}
