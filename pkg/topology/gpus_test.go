// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"
)

// TestHosts reads link matrices as nvidia-smi prints them and writes, for every
// number of GPUs of an idle host, the ring bandwidth in MB/s of the best set and
// that which every set has, and the strongest links that can be asked of some set
// and of every.
func TestHosts(t *testing.T) {
	datadriven.Walk(t, "testdata/hosts", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, _ *datadriven.TestData) string {
			return describeHost(readHost(t, path))
		})
	})
}

func readHost(t *testing.T, path string) *GPUs {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := ParseHostFile(string(text))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	g, err := f.GPUs()
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return g
}

func describeHost(g *GPUs) string {
	var b strings.Builder
	word := "not uniform"
	if g.Uniform() {
		word = "uniform"
	}
	fmt.Fprintf(&b, "%d GPUs, %s\n", g.Count(), word)
	for k := 2; k <= g.Count(); k++ {
		best, guaranteed := g.Range(g.All(), k)
		some, every := Demand(0), Demand(0)
		for link := range Demand(len(demands)) {
			if g.Pack(g.All(), []Ask{{k, link}}) {
				some = link
			}
			if g.Every(g.All(), Ask{k, link}) {
				every = link
			}
		}
		fmt.Fprintf(&b, "%d: best %d by %s, guaranteed %d by %s\n", k, best, some, guaranteed, every)
	}
	return b.String()
}

// TestRingsOfDGX1 counts, for every size, how many sets of GPUs hold how many
// rings. However the board is numbered, it is the same.
func TestRingsOfDGX1(t *testing.T) {
	v100 := map[int]string{
		2: "0x12 1x8 2x8", 3: "0x48 2x8", 4: "0x62 2x6 4x2", 5: "0x32 2x24", 6: "2x24 4x4", 7: "4x8", 8: "6x1",
	}
	p100 := map[int]string{
		2: "0x12 1x16", 3: "0x48 2x8", 4: "0x62 2x8", 5: "0x32 2x24", 6: "2x28", 7: "2x8", 8: "4x1",
	}
	for board, want := range map[string]map[int]string{"dgx-1v": v100, "v100-vm": v100, "v100-vm-96": v100, "v100-third": v100, "dgx-1p": p100} {
		got := map[int]string{}
		for k, sets := range setsByRings(readHost(t, "testdata/hosts/"+board)) {
			var parts []string
			for _, rings := range slices.Sorted(maps.Keys(sets)) {
				parts = append(parts, fmt.Sprintf("%dx%d", rings, len(sets[rings])))
			}
			got[k] = strings.Join(parts, " ")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: rings x sets by size (-want +got):\n%s", board, diff)
		}
	}
}

// setsByRings lists the sets of every size that hold so many rings.
func setsByRings(g *GPUs) map[int]map[int][]string {
	sets := map[int]map[int][]string{}
	for set := Set(1); set <= g.All(); set++ {
		if k := set.Len(); k > 1 {
			if sets[k] == nil {
				sets[k] = map[int][]string{}
			}
			rings := g.ringsOf(set)
			sets[k][rings] = append(sets[k][rings], strings.ReplaceAll(set.String(), ",", ""))
		}
	}
	for _, byRings := range sets {
		for _, names := range byRings {
			slices.Sort(names)
		}
	}
	return sets
}

// TestSetsOfDGX1WithMostRings names them: two sets of four or six with as many
// links are not worth the same.
func TestSetsOfDGX1WithMostRings(t *testing.T) {
	sets := setsByRings(readHost(t, "testdata/hosts/dgx-1v"))
	for _, tc := range []struct {
		size, rings int
		want        string
	}{
		{2, 2, "03 04 12 15 23 47 56 67"},
		{2, 1, "01 02 13 26 37 45 46 57"},
		{3, 2, "012 013 023 123 456 457 467 567"}, // three of one quad
		{4, 4, "0123 4567"},
		{4, 2, "0145 0246 0347 1256 1357 2367"},
		{6, 4, "012456 013457 023467 123567"},
	} {
		if got := strings.Join(sets[tc.size][tc.rings], " "); got != tc.want {
			t.Errorf("sets of %d with %d rings: %s, want %s", tc.size, tc.rings, got, tc.want)
		}
	}
	for _, set := range sets[5][2] {
		if quad := strings.Count(set, "0") + strings.Count(set, "1") + strings.Count(set, "2") + strings.Count(set, "3"); quad != 2 && quad != 3 {
			t.Errorf("%s holds rings, but is four of a quad and one", set)
		}
	}
}

func TestMalformedHostsAreRefused(t *testing.T) {
	nv, sys := Link{Bonded: 1}, Link{Class: len(linkClasses) - 1}
	cases := map[string]struct {
		links [][]Link
		numa  []int
		want  string
	}{
		"asymmetric":     {[][]Link{{{}, nv}, {sys, {}}}, nil, "the link matrix is not symmetric: SYS from 1 to 0, NV1 back"},
		"ragged":         {[][]Link{{{}, nv}, {nv}}, nil, "row 1 of the link matrix has 1 cells, want 2"},
		"other NUMA":     {[][]Link{{{}}}, []int{0, 1}, "NUMA nodes of 2 GPUs for a matrix of 1"},
		"more than held": {make([][]Link, 33), nil, "33 GPUs, but at most 32 are supported"},
	}
	for name, tc := range cases {
		if _, err := NewGPUs(tc.links, tc.numa, Rates{}); err == nil || err.Error() != tc.want {
			t.Errorf("%s: error %v, want %s", name, err, tc.want)
		}
	}
	for _, cell := range []string{"", "NV", "NV0", "NV-1", "X", "OK"} {
		if link, err := ParseLink(cell); err == nil {
			t.Errorf("%q is read as %s", cell, link)
		}
	}
}
