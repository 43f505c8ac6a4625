// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// enormous makes the problem's amounts as large as they get, of two sorts of devices.
func enormous(p Problem) Problem {
	p.Free, p.GPUs = cloned(p.Free), nil
	for d := range p.Resources {
		p.Resources[d] = "vendor/" + p.Resources[d]
	}
	scale := func(amounts []int64) {
		for d := range amounts {
			amounts[d] *= math.MaxInt64 / 6
		}
	}
	for _, free := range p.Free {
		scale(free)
	}
	for r := range p.Roles {
		p.Roles[r].Link = 0
		scale(p.Roles[r].Request)
	}
	return p
}

// TestEnormousAmounts plans with the largest amounts there are, on which the twin
// only ever compares, and a planner that is kept as well as one that is not.
func TestEnormousAmounts(t *testing.T) {
	for seed := range 2_000 {
		rng := rand.New(rand.NewPCG(uint64(seed), 61))
		p := enormous(randomProblem(rng.IntN))
		d := check(t, p)
		for _, rj := range d.Rejections {
			for _, s := range rj.Shortages {
				if s.Amount < 0 || s.Unusable < 0 {
					t.Errorf("%+v", s)
				}
			}
		}
		hy := newHistory(p, rng.IntN)
		for range 4 {
			h := rng.IntN(len(hy.free))
			hy.free[h] = cloned(hy.free[rng.IntN(len(hy.free)):])[0]
			hy.planner.SetFree(h, hy.free[h])
			p.Free = hy.free
			if p.Kinds == nil {
				if got, want := hy.planner.Plan(p), Plan(p); got.Explain(p) != want.Explain(p) {
					t.Errorf("kept: %s\nfrom scratch: %s", got.Explain(p), want.Explain(p))
				}
			}
		}
		_, e := PlanWithVictims(p, []Victim{{Frees: []Change{{Host: 0, Free: enormousVector(len(p.Resources))}}, Cost: Cost{Pods: 1, Lost: math.MaxInt64}}})
		if e.Cost.Lost < 0 || t.Failed() {
			t.Fatalf("seed %d, %+v:\n%s", seed, e, draw(p))
		}
	}
}

func enormousVector(resources int) []int64 {
	v := make([]int64, resources)
	for d := range v {
		v[d] = math.MaxInt64
	}
	return v
}

func TestAmounts(t *testing.T) {
	edges := []int64{math.MinInt64, math.MinInt64 + 1, -1 << 32, -1, 0, 1, 2, 3, 1<<31 - 1, 1 << 32, math.MaxInt64 / 3, math.MaxInt64 / 2, math.MaxInt64 - 1, math.MaxInt64}
	stop := func(n *big.Int) int64 {
		switch {
		case n.IsInt64():
			return n.Int64()
		case n.Sign() > 0:
			return math.MaxInt64
		default:
			return math.MinInt64
		}
	}
	for _, a := range edges {
		for _, b := range edges {
			x, y := big.NewInt(a), big.NewInt(b)
			if got, want := plus(a, b), stop(new(big.Int).Add(x, y)); got != want {
				t.Errorf("%d + %d = %d, want %d", a, b, got, want)
			}
			if a < 0 || b < 0 {
				continue
			}
			if got, want := times(a, b), stop(new(big.Int).Mul(x, y)); got != want {
				t.Errorf("%d * %d = %d, want %d", a, b, got, want)
			}
			var sum total
			sum.add(a, 1)
			sum.add(b, 1)
			if got, want := sum.amount(), plus(a, b); got != want {
				t.Errorf("the sum of %d and %d is %d, want %d", a, b, got, want)
			}
			if sum.add(a, -1); sum.amount() != b {
				t.Errorf("the sum of %d and %d less the first is %d", a, b, sum.amount())
			}
		}
	}
}
