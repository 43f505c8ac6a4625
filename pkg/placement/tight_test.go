// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestManyEqualHostsAreRankedAsFewAre compares a planner, which ranks domains
// before it looks for their hosts, with a single plan, which lists them all.
func TestManyEqualHostsAreRankedAsFewAre(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 7))
		p := benchProblem(2*maxEqual + rng.IntN(600))
		taken := rng.IntN(60)
		for h := range p.Free {
			p.Free[h] = gangFree(rng.IntN(100) < taken)
		}
		excluded := rng.IntN(100)
		no := make([]bool, len(p.Free))
		for h := range no {
			no[h] = rng.IntN(100) < excluded
		}
		r := worker(1)
		r.Request[1] = int64(1 + rng.IntN(8))
		r.Eligible = func(h int) (bool, string) { return !no[h], "drawn" }
		p.Roles = []Role{r}
		p.Constraint = Constraint{Required: rng.IntN(2), Preferred: rng.IntN(3)}
		planner := NewPlanner(p.Tree, p.Resources, cloned(p.Free))
		for range 3 {
			want, got := Plan(p), planner.Plan(p)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("seed %d: from scratch, and by a planner:\n%s", seed, diff)
			}
			if got.Hosts == nil {
				break
			}
			h := got.Hosts[0][0]
			p.Free[h] = gangFree(true)
			planner.SetFree(h, gangFree(true))
		}
	}
}
