// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func hostScores(t *testing.T, name string) [][]int {
	t.Helper()
	scores, err := readScores("../../../pkg/topology/testdata/hosts/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return scores
}

// choices are the sets that 200 seeds prefer.
func choices(scores [][]int, available, required []int, size int) []string {
	seen := map[string]bool{}
	for seed := range uint64(200) {
		set := prefer(scores, available, required, size, rand.New(rand.NewPCG(seed, 0)))
		slices.Sort(set)
		seen[fmt.Sprint(set)] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

func TestPreferredSets(t *testing.T) {
	all := []int{0, 1, 2, 3, 4, 5, 6, 7}
	cases := map[string]struct {
		host                string
		available, required []int
		size                int
		want                []string
	}{
		"a mesh's pairs of two links":     {"dgx-1v", all, nil, 2, []string{"[0 3]", "[0 4]", "[1 2]", "[1 5]", "[2 3]", "[4 7]", "[5 6]", "[6 7]"}},
		"a mesh's quads":                  {"dgx-1v", all, nil, 4, []string{"[0 1 2 3]", "[4 5 6 7]"}},
		"what must be included":           {"dgx-1v", all, []int{5}, 4, []string{"[4 5 6 7]"}},
		"bridged pairs that stay whole":   {"a100-pcie-8", []int{0, 2, 4, 5}, nil, 2, []string{"[0 2]", "[4 5]"}},
		"single GPUs break pairs by luck": {"a100-pcie-8", []int{0, 2, 4}, nil, 1, []string{"[0]", "[2]", "[4]"}},
		"all there are":                   {"dgx-1v", []int{1, 6}, nil, 2, []string{"[1 6]"}},
		"more than there are":             {"dgx-1v", []int{1, 6}, nil, 3, []string{"[]"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, choices(hostScores(t, tc.host), tc.available, tc.required, tc.size)); diff != "" {
				t.Errorf("preferred sets (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSwitchedGPUsAreAlike: the policy does not see links through a switch.
func TestSwitchedGPUsAreAlike(t *testing.T) {
	scores := hostScores(t, "hgx-h100")
	for i := range scores {
		for j := range i {
			if scores[i][j] != levelScores["SYS"] {
				t.Fatalf("GPUs %d and %d have the score %d, want %d", i, j, scores[i][j], levelScores["SYS"])
			}
		}
	}
}
