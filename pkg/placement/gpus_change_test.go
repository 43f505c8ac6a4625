// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"testing"

	"github.com/tutti-project/tutti/pkg/topology"
)

// TestGPUsThatComeFreeMayBeAny: nobody says which GPUs a victim holds, so links are
// promised where any of those that are healthy will do.
func TestGPUsThatComeFreeMayBeAny(t *testing.T) {
	all := topology.Set(0xff)
	for name, tc := range map[string]struct {
		board   string
		free    topology.Set // beside which a victim has the rest
		healthy topology.Set
		size    int64
		fits    bool
	}{
		"behind a switch any will do":          {"hgx-h100", 0, all, 4, true},
		"all of them are known":                {"dgx-1v", 0, all, 8, true},
		"of pairs some would not do":           {"a40-8", 0, all, 2, false},
		"not even beside a pair that is whole": {"a40-8", 0b11, all, 2, true}, // nobody has to go
		"an ill one does not come free":        {"dgx-1v", 0, all &^ 1, 8, false},
	} {
		t.Run(name, func(t *testing.T) {
			free, taken := int64(tc.free.Len()), int64((tc.healthy &^ tc.free).Len())
			p := Problem{Tree: flatTree(1)}
			p.Resources, p.Free = []string{"nvidia.com/gpu"}, [][]int64{{free}}
			p.GPUs = []HostGPUs{{Model: readBoard(tc.board), Free: tc.free, Healthy: tc.healthy}}
			p.Roles = []Role{{Name: "worker", Pods: 1, Minimum: 1, Request: []int64{tc.size}, Link: nvlink(t)}}
			d, e := PlanWithVictims(p, []Victim{{Cost: Cost{Pods: 1}, Frees: []Change{{Free: []int64{taken}}}}})
			if fits := d.Hosts != nil; fits != tc.fits {
				t.Errorf("fits %t with victims %v, want %t: %s", fits, e.Victims, tc.fits, d.Explain(p))
			}
		})
	}
}

// TestRoomKeptForOthersTakesAnyGPUs: what is left of those that were free.
func TestRoomKeptForOthersTakesAnyGPUs(t *testing.T) {
	p := Problem{Tree: flatTree(1)}
	p.Resources, p.Free = []string{"nvidia.com/gpu"}, [][]int64{{8}}
	p.Roles = []Role{{Name: "worker", Pods: 1, Minimum: 1, Request: []int64{2}, Link: nvlink(t)}}
	p.Changes = []Change{{Free: []int64{4}}}
	for board, want := range map[string]bool{"hgx-h100": true, "a40-8": false} {
		p.GPUs = []HostGPUs{{Model: readBoard(board), Free: 0xff, Healthy: 0xff}}
		if fits := Plan(p).Hosts != nil; fits != want {
			t.Errorf("%s: fits %t, want %t", board, fits, want)
		}
	}
}

func nvlink(t *testing.T) topology.Demand {
	link, err := topology.ParseDemand("nvlink")
	if err != nil {
		t.Fatal(err)
	}
	return link
}
