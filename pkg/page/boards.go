// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	topologyv1alpha1 "github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
	"github.com/tutti-project/tutti/pkg/board"
	"github.com/tutti-project/tutti/pkg/topology"
)

// device is what a node's agent says of it.
type device struct {
	board     Board
	key       string         // equal for equal boards
	at        map[string]int // positions by UUID
	given     map[types.NamespacedName][]string
	unhealthy []string
}

// boardsOf reads the agents' reports; one that makes no sense is left out, as the
// scheduler does.
func boardsOf(reports []*topologyv1alpha1.NodeTopology) map[string]*device {
	devices := make(map[string]*device, len(reports))
	for _, report := range reports {
		b, err := board.Of(&report.Spec)
		if err != nil || len(b.GPUs) == 0 {
			continue
		}
		model, err := b.Model()
		if err != nil {
			continue
		}
		d := &device{board: drawn(b, model), at: b.Positions(), given: map[types.NamespacedName][]string{}}
		key, _ := json.Marshal(d.board)
		d.key = string(key)
		for _, given := range report.Status.Given {
			d.given[types.NamespacedName{Namespace: given.Namespace, Name: given.Pod}] = given.GPUs
		}
		for _, sick := range report.Status.Unhealthy {
			d.unhealthy = append(d.unhealthy, sick.UUID)
		}
		devices[report.Name] = d
	}
	return devices
}

func drawn(b board.Board, model *topology.GPUs) Board {
	d := Board{Model: b.GPUs[0].Model, NUMA: b.NUMA, Uniform: model.Uniform(), Sets: sets(b.Links)}
	for i, row := range b.Links {
		words := make([]string, len(row))
		for j, link := range row {
			if i != j {
				words[j] = link.String()
			}
		}
		d.Links = append(d.Links, words)
	}
	return d
}

// sets are the connected components over NVLink of more than one device.
func sets(links [][]topology.Link) [][]int {
	found := [][]int{}
	seen := make([]bool, len(links))
	for start := range links {
		if seen[start] {
			continue
		}
		seen[start] = true
		set := []int{start}
		for next := 0; next < len(set); next++ {
			for other, link := range links[set[next]] {
				if link.Bonded > 0 && !seen[other] && other != set[next] {
					seen[other] = true
					set = append(set, other)
				}
			}
		}
		if len(set) > 1 {
			slices.Sort(set)
			found = append(found, set)
		}
	}
	return found
}
