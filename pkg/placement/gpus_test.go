// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tutti-project/tutti/pkg/topology"
)

// boards are those of random problems: a mesh, pairs, a switch, PCIe in two
// sockets, and none.
var boards = []*topology.GPUs{readBoard("dgx-1v"), readBoard("a40-8"), readBoard("hgx-h100"), readBoard("l40s-8"), nil}

// readBoard reads a fixture of the topology package.
func readBoard(name string) *topology.GPUs {
	text, err := os.ReadFile(filepath.Join("..", "topology", "testdata", "hosts", name))
	if err != nil {
		panic(err)
	}
	f, err := topology.ParseHostFile(string(text))
	if err != nil {
		panic(err)
	}
	g, err := f.GPUs()
	if err != nil {
		panic(err)
	}
	return g
}

// randomGPUs draws what is known of the hosts' GPUs. One in eight disagrees with
// the free vectors.
func randomGPUs(below func(int) int, free [][]int64, resource int) []HostGPUs {
	gpus := make([]HostGPUs, len(free))
	for h := range gpus {
		n := int(max(0, free[h][resource]))
		if below(8) == 0 {
			n += below(3) - 1
		}
		if model := boards[below(len(boards))]; model != nil {
			gpus[h] = HostGPUs{Model: model, Resource: resource, Free: randomSet(below, n, model.Count()), PlannerPicks: below(2) == 0}
		}
	}
	return gpus
}

func randomSet(below func(int) int, size, of int) topology.Set {
	set := topology.Set(0)
	for range min(max(0, size), of) {
		i := below(of)
		for set&(1<<i) != 0 {
			i = (i + 1) % of
		}
		set |= 1 << i
	}
	return set
}

// checkGPUs checks the sets of a decision: of free GPUs, each given once, as many
// as asked and linked as demanded; and that none is missing that is due.
func checkGPUs(t *testing.T, p Problem, d Decision) {
	t.Helper()
	left := make([]topology.Set, len(p.Free))
	for h := range p.GPUs {
		left[h] = p.GPUs[h].Free
	}
	for r, ranks := range d.Hosts {
		for rank, h := range ranks {
			if h == Unplaced || p.GPUs == nil {
				continue
			}
			set := topology.Set(0)
			if d.GPUs != nil {
				set = d.GPUs[r][rank]
			}
			if why := wrongWith(p, r, h, set, left[h]); why != "" {
				t.Errorf("role %d, rank %d on host %d: GPUs %s of %s: %s", r, rank, h, set, left[h], why)
			}
			left[h] &^= set
		}
	}
}

// wrongWith says what is wrong with a set for a pod of the role.
func wrongWith(p Problem, role, host int, set, left topology.Set) string {
	g, asked := p.GPUs[host], int64(0)
	if g.Model != nil {
		asked = p.Roles[role].Request[g.Resource]
	}
	due := twinKnows(p, host) && g.PlannerPicks && !g.Model.Uniform()
	switch {
	case (due || set != 0) && int64(set.Len()) != asked:
		return "not as many as are asked for"
	case set&^left != 0:
		return "not free"
	case set != 0 && !g.Model.Satisfies(set, p.Roles[role].Link):
		return "not linked as demanded"
	case twinSets(p, role, host, g.Free) == nil:
		return "the host does not promise the links"
	}
	return ""
}

// TestPreferencesFitIntoKeys holds the table to the bits that a key has for it.
func TestPreferencesFitIntoKeys(t *testing.T) {
	bits := 0
	for _, o := range preferences {
		bits += o.bits
	}
	if 1<<bits-1 != maxRank {
		t.Errorf("preferences have %d bits, a key is for ranks up to %d", bits, maxRank)
	}
}

// TestPreferencesBetweenHosts orders hosts for one pod of two GPUs, best first.
func TestPreferencesBetweenHosts(t *testing.T) {
	offers := []offer{
		{gpus: HostGPUs{Model: readBoard("hgx-h100"), Free: 0b11}, devices: 2},                  // 450 GB/s
		{gpus: HostGPUs{Model: readBoard("a40-8"), Free: 0b11, PlannerPicks: true}, devices: 2}, // 56 GB/s
		{gpus: HostGPUs{Model: readBoard("dgx-1v"), Free: 0b1001}, devices: 2},                  // two links
		{gpus: HostGPUs{Model: readBoard("dgx-1v"), Free: 0b1001}, devices: 3},                  // the same, more left
		{gpus: HostGPUs{Model: readBoard("dgx-1v"), Free: 0b111}, devices: 3},                   // any pair of a quad
		{gpus: HostGPUs{Model: readBoard("dgx-1v"), Free: 0b1101001}, devices: 4},               // may get an unlinked pair
		{gpus: HostGPUs{Model: readBoard("dgx-1v"), Free: 0b100001}, devices: 2},                // gets it
		{gpus: HostGPUs{}, devices: 2},                                                          // nobody knows
	}
	var ranks []int64
	for _, o := range offers {
		o.size = 2
		ranks = append(ranks, o.rank())
	}
	if !slices.IsSorted(ranks) {
		t.Errorf("ranks of hosts that should go from best to worst: %x", ranks)
	}
}

// TestVictimsForLinks: only the pod that holds the other half of a pair helps, and
// though enough GPUs are free somebody has to go.
func TestVictimsForLinks(t *testing.T) {
	p := Problem{
		Tree: flatTree(1), Resources: []string{"vendor/gpu"}, Free: [][]int64{{2}},
		GPUs:  []HostGPUs{{Model: readBoard("a40-8"), Free: 0b101, PlannerPicks: true}},
		Roles: []Role{{Name: "worker", Pods: 1, Minimum: 1, Request: []int64{2}, Link: 3}},
	}
	victims := []Victim{
		{Cost: Cost{Pods: 1}, Frees: []Change{{Free: []int64{1}, GPUs: 1 << 4}}},
		{Cost: Cost{Pods: 2}, Frees: []Change{{Free: []int64{1}, GPUs: 1 << 1}}},
	}
	d, e := PlanWithVictims(p, victims)
	if !slices.Equal(e.Victims, []int{1}) || d.GPUs == nil || d.GPUs[0][0] != 0b11 || e.Least {
		t.Errorf("victims %+v, GPUs %v; want the second, and its pair", e, d.GPUs)
	}
}
