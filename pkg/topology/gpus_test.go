// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strconv"
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
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return describeHost(readHost(t, d))
		})
	})
}

func readHost(t *testing.T, d *datadriven.TestData) *GPUs {
	var rates Rates
	var numa []int
	for _, arg := range d.CmdArgs {
		into := map[string]*int{"nvlink": &rates.NVLink, "pcie": &rates.PCIe, "socket": &rates.Socket, "links": &rates.NVLinks}[arg.Key]
		for _, value := range arg.Vals {
			n, err := strconv.Atoi(value)
			if err != nil {
				t.Fatal(err)
			}
			if into == nil {
				numa = append(numa, n)
			} else {
				*into = n
			}
		}
	}
	g, err := NewGPUs(readMatrix(t, d.Input), numa, rates)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func readMatrix(t *testing.T, text string) [][]Link {
	var links [][]Link
	for line := range strings.Lines(text) {
		var row []Link
		for cell := range strings.FieldsSeq(line) {
			link := Link{}
			if cell != "X" {
				var err error
				if link, err = ParseLink(cell); err != nil {
					t.Fatal(err)
				}
			}
			row = append(row, link)
		}
		links = append(links, row)
	}
	return links
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
		datadriven.RunTest(t, "testdata/hosts/"+board, func(t *testing.T, d *datadriven.TestData) string {
			g := readHost(t, d)
			counts := map[int]map[int]int{}
			for set := Set(1); set <= g.All(); set++ {
				k := bits.OnesCount32(uint32(set))
				if counts[k] == nil {
					counts[k] = map[int]int{}
				}
				counts[k][g.ringsOf(set)]++
			}
			got := map[int]string{}
			for k := 2; k <= g.Count(); k++ {
				var parts []string
				for _, rings := range slices.Sorted(maps.Keys(counts[k])) {
					parts = append(parts, fmt.Sprintf("%dx%d", rings, counts[k][rings]))
				}
				got[k] = strings.Join(parts, " ")
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: rings x sets by size (-want +got):\n%s", board, diff)
			}
			return describeHost(g)
		})
	}
}

// TestBestSetsOfDGX1 names the sets of four that hold rings at all.
func TestBestSetsOfDGX1(t *testing.T) {
	datadriven.RunTest(t, "testdata/hosts/dgx-1v", func(t *testing.T, d *datadriven.TestData) string {
		g := readHost(t, d)
		got := map[int][]string{}
		for set := Set(1); set <= g.All(); set++ {
			if rings := g.ringsOf(set); bits.OnesCount32(uint32(set)) == 4 && rings > 0 {
				var name strings.Builder
				for i := range g.Count() {
					if set&(1<<i) != 0 {
						name.WriteString(strconv.Itoa(i))
					}
				}
				got[rings] = append(got[rings], name.String())
			}
		}
		for _, names := range got {
			slices.Sort(names)
		}
		want := map[int][]string{4: {"0123", "4567"}, 2: {"0145", "0246", "0347", "1256", "1357", "2367"}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("sets by rings (-want +got):\n%s", diff)
		}
		return describeHost(g)
	})
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
