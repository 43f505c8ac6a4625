// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestExplanationsStayReadable draws gangs of many roles for clusters where every
// host has its own long reason to refuse them.
func TestExplanationsStayReadable(t *testing.T) {
	longest, placed := "", 0
	for seed := range 60 {
		rng := rand.New(rand.NewPCG(uint64(seed), 67))
		p := benchProblem(1_000)
		for range p.Free {
			p.Kinds = append(p.Kinds, fmt.Sprint("kind-", rng.IntN(1+rng.IntN(3))))
		}
		reason := strings.Repeat("a very long reason ", rng.IntN(60))
		for r := range 1 + rng.IntN(40) {
			role := Role{Name: fmt.Sprint("role-", r), Pods: 1 + rng.IntN(50), Request: []int64{8_000, int64(rng.IntN(9)), 1}, Uniform: rng.IntN(2) == 0, Family: "all"}
			role.Minimum = rng.IntN(role.Pods + 1)
			if seed%2 == 0 {
				role.Eligible = func(h int) (bool, string) { return h%7 > 5, fmt.Sprint(h, " ", reason) }
			}
			p.Roles = append(p.Roles, role)
		}
		p.Constraint.Required = rng.IntN(4)
		d := Plan(p)
		if d.Hosts != nil {
			placed++
		}
		text := d.Explain(p)
		if strings.Contains(text, " 0 of 0 ") {
			t.Errorf("says what says nothing: %s", text)
		}
		if len(text) > len(longest) {
			longest = text
		}
	}
	t.Logf("%d placed; the longest of %d bytes: %s", placed, len(longest), longest)
	if len(longest) > 3_000 || placed == 0 || placed == 60 {
		t.Error("too long to be read, or too one-sided")
	}
}
