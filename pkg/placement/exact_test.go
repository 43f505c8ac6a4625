// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestExactPackingAgreesWithTheTwin asks the exact packing by itself, which
// Plan does only where the quick one fails.
func TestExactPackingAgreesWithTheTwin(t *testing.T) {
	yes, no, slow := 0, 0, 0
	for seed := range 10_000 {
		p := randomProblem(rand.New(rand.NewPCG(uint64(seed), 11)).IntN)
		p.Constraint.SliceSize, p.Kinds = 0, nil
		for r := range p.Roles {
			p.Roles[r].Kind = ""
		}
		c := newCapacity(p.Tree, p.Resources, p.Free)
		c.setHosts(Problem{GPUs: p.GPUs})
		pl := newPlan(c, &p, slices.Repeat([]int{anyKind}, len(p.Roles)), limitsOf(maxSteps))
		need, want := make([]int64, len(p.Roles)), make([]int, len(p.Roles))
		hosts := twinHosts(0, len(p.Free))
		for r, role := range p.Roles {
			need[r], want[r] = int64(role.Pods), role.Pods
			for _, h := range hosts {
				pl.mayUse(r, h)
			}
		}
		f, decided := pl.solve(need, span{list: hosts}, &pl.limits.steps)
		fits := twinFits(p, want, hosts)
		if !decided || fits != (f != nil) {
			t.Fatalf("seed %d: packed: %v, decided: %v, but an assignment exists: %v\n%s", seed, f != nil, decided, fits, draw(p))
		}
		if !fits {
			no++
			continue
		}
		yes++
		if _, ok := pl.room.quickly(need, span{list: hosts}, nil, false); !ok {
			slow++
		}
		d := Decision{Hosts: f.ranks(p.Roles)} // in the cluster, level 0
		d.GPUs = pl.pickGPUs(d.Hosts)
		p.Constraint.Required, p.Anchors = 0, nil
		for r := range p.Roles {
			p.Roles[r].Minimum = p.Roles[r].Pods
		}
		checkPlaced(t, p, d)
		if t.Failed() {
			t.Fatalf("seed %d:\n%s", seed, draw(p))
		}
	}
	t.Logf("%d fit (%d of them not found by the quick packing), %d do not", yes, slow, no)
	if slow == 0 {
		t.Error("the quick packing found all: this proves nothing")
	}
}

// TestPlanSaysThatItGaveUp uses a gang whose shapes are too many to try.
func TestPlanSaysThatItGaveUp(t *testing.T) {
	p := benchProblem(100)
	for i := range 8 {
		// Together a little more than a host holds, in ever different ways.
		p.Roles = append(p.Roles, Role{Name: string(rune('a' + i)), Pods: 30, Minimum: 30, Request: []int64{37_000 + int64(i)*1_000, 0, 1}})
	}
	d := Plan(p)
	if d.Hosts != nil || !d.Bounded {
		t.Errorf("placed: %v, bounded: %v; want a bounded no", d.Hosts != nil, d.Bounded)
	}
}

// TestListingOptionsIsCharged has 15 shapes of few pods, whose states and options
// are many before the first addition.
func TestListingOptionsIsCharged(t *testing.T) {
	p := benchProblem(40)
	need := make([]int64, 15)
	for r := range need {
		need[r] = int64(1 + r%2)
		p.Roles = append(p.Roles, Role{Name: string(rune('a' + r)), Pods: int(need[r]), Minimum: int(need[r]), Request: []int64{int64(4_000 + r*1_000), int64(r % 3), 1}})
	}
	for _, budget := range []int{10, 1_000, 100_000, 10_000_000} {
		pl := newPlan(newCapacity(p.Tree, p.Resources, p.Free), &p, slices.Repeat([]int{anyKind}, len(p.Roles)), limitsOf(maxSteps))
		steps := budget
		s := pl.newSum(need, twinHosts(0, len(p.Free)), &steps)
		if s == nil {
			if steps >= 0 {
				t.Errorf("budget %d: given up with %d steps left", budget, steps)
			}
			continue
		}
		listed := s.states
		for i, st := range s.stairs {
			if i == 0 || st != s.stairs[i-1] {
				listed += len(st.options)
			}
		}
		if listed > budget {
			t.Errorf("%d states and options listed for %d steps", listed, budget)
		}
	}
	d := Plan(p)
	if d.Hosts == nil {
		t.Error("it fits")
	}
}
