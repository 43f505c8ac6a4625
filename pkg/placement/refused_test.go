// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestWhereAllRefuseNothingWasMissed: where every host refuses, "no" is certain, however
// few steps there were to find out what would fit.
func TestWhereAllRefuseNothingWasMissed(t *testing.T) {
	short := 0
	for seed := range 300 {
		p := manyShapes(rand.New(rand.NewPCG(uint64(seed), 99)))
		p.Kinds = nil
		plan := func(steps int) Decision {
			c := newCapacity(p.Tree, p.Resources, p.Free)
			c.setHosts(p)
			return c.plan(p, told, &steps)
		}
		if d := plan(1 << 8); d.Bounded && d.Hosts == nil {
			short++
		}
		for r := range p.Roles {
			p.Roles[r].Eligible = func(int) (bool, string) { return false, "taint" }
		}
		if d := plan(1 << 8); d.Hosts != nil || d.Bounded {
			t.Fatalf("seed %d: %s", seed, d.Explain(p))
		}
	}
	if short < 30 {
		t.Errorf("only %d are short of steps where hosts do not refuse", short)
	}
}

// BenchmarkPlanAllHostsRefuse is a pod that every host refuses, each for its own
// reason, on hosts of which no two are alike: hosts x 10 is to cost little more
// than x 10.
func BenchmarkPlanAllHostsRefuse(b *testing.B) {
	for _, hosts := range []int{2_000, 20_000} {
		for _, pods := range []int{1, 8} {
			b.Run(fmt.Sprintf("hosts=%d/pods=%d", hosts, pods), func(b *testing.B) {
				p := benchProblem(hosts, Role{Name: "worker", Pods: pods, Minimum: pods, Request: []int64{1_000, 0, 1}})
				for h := range p.Free {
					p.Free[h] = []int64{int64(8+h%97) * 1_000, int64(h), 110}
				}
				p.Roles[0].Eligible = func(h int) (bool, string) { return false, fmt.Sprint("taint of ", h) }
				benchmark(b, p, false)
			})
		}
	}
}
