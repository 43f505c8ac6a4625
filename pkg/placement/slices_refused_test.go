// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"math/rand/v2"
	"testing"
)

// TestRefusalsOfSlicesAreCertain draws what takes most splits to refuse: roles in
// slices and each on one kind of hosts, whose choices share the limit. No refusal of
// so few pods is to reach it.
func TestRefusalsOfSlicesAreCertain(t *testing.T) {
	const n = 5_000
	refused, uncertain := 0, 0
	for seed := range n {
		rng := rand.New(rand.NewPCG(uint64(seed), 71))
		p := randomProblem(rng.IntN)
		p.Kinds = nil
		for range p.Free {
			p.Kinds = append(p.Kinds, []string{"", "old", "new"}[rng.IntN(3)])
		}
		for r := range p.Roles {
			p.Roles[r].Uniform, p.Roles[r].Family = true, ""
		}
		last := len(p.Tree.Levels()) - 1
		p.Constraint.SliceLevel, p.Constraint.SliceSize = 1+rng.IntN(last), 2+rng.IntN(2)
		p.Constraint.Required = rng.IntN(p.Constraint.SliceLevel + 1)
		d := Plan(p)
		if d.Hosts == nil {
			refused++
		}
		if d.Roughly || d.Bounded {
			uncertain++
		}
	}
	t.Logf("%d of %d are refused, %d of them uncertain", refused, n, uncertain)
	if refused < n/4 || uncertain > 0 {
		t.Errorf("%d of %d are refused, %d of them uncertain", refused, n, uncertain)
	}
}
