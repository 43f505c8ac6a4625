// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package board answers how the GPUs reach each other that pods of a node can get: it reads the
// spec of a NodeTopology for the planner's model of it. It knows no pods.
package board

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
	"github.com/tutti-project/tutti/pkg/topology"
)

// Bandwidths that a NodeTopology does not tell, in MB/s per direction: PCIe 3.0 x16
// and what lies between two sockets. They are the least that GPUs worth linking
// have, so that a link that was measured never loses to one that was not.
const (
	pcieMBps   = 15750
	socketMBps = 10000
	nvlinkMBps = 20000 // of the first generation, where the driver does not say
)

// Board is what the spec of a NodeTopology says. It has the GPUs that pods can
// get whole: one that is cut into instances has no links, and is none of them.
type Board struct {
	GPUs  []v1alpha1.GPU // in order of index, as everything below
	Links [][]topology.Link
	NUMA  []int
	Rates topology.Rates
}

// Of reads a spec.
func Of(spec *v1alpha1.NodeTopologySpec) (Board, error) {
	var b Board
	for _, gpu := range spec.GPUs {
		if !gpu.MIG {
			b.GPUs = append(b.GPUs, gpu)
		}
	}
	slices.SortFunc(b.GPUs, func(x, y v1alpha1.GPU) int { return cmp.Compare(x.Index, y.Index) })
	position := map[int32]int{}
	for i, gpu := range b.GPUs {
		position[gpu.Index] = i
	}
	if len(b.Positions()) < len(b.GPUs) || len(position) < len(b.GPUs) {
		return Board{}, errors.New("it lists a GPU twice")
	}
	var err error
	if b.Links, err = matrixOf(spec.Links, position); err != nil {
		return Board{}, err
	}
	b.NUMA, b.Rates = numaOf(b.GPUs), ratesOf(b.GPUs)
	return b, nil
}

// Model is the planner's. Boards of equal links, NUMA nodes and rates can share one.
func (b Board) Model() (*topology.GPUs, error) { return topology.NewGPUs(b.Links, b.NUMA, b.Rates) }

// Positions are those of the GPUs in the model, by UUID.
func (b Board) Positions() map[string]int {
	at := make(map[string]int, len(b.GPUs))
	for i, gpu := range b.GPUs {
		at[gpu.UUID] = i
	}
	return at
}

// matrixOf spells out the upper triangle. What was not measured is taken for the
// weakest link there is.
func matrixOf(listed []v1alpha1.Link, position map[int32]int) ([][]topology.Link, error) {
	weakest, err := topology.ParseLink(string(v1alpha1.PCIeAcrossNUMANode))
	if err != nil {
		return nil, err
	}
	matrix := make([][]topology.Link, len(position))
	for i := range matrix {
		matrix[i] = slices.Repeat([]topology.Link{weakest}, len(position))
	}
	for _, l := range listed {
		from, isFrom := position[l.From]
		to, isTo := position[l.To]
		if !isFrom || !isTo {
			continue // of a GPU that nobody gets whole
		}
		cell := string(l.PCIe)
		if l.NVLinks > 0 {
			cell = fmt.Sprintf("NV%d", l.NVLinks)
		}
		link, err := topology.ParseLink(cell)
		if err != nil {
			return nil, fmt.Errorf("GPUs %d and %d: %w", l.From, l.To, err)
		}
		matrix[from][to], matrix[to][from] = link, link
	}
	return matrix, nil
}

func numaOf(gpus []v1alpha1.GPU) []int {
	numa := make([]int, len(gpus))
	for i, gpu := range gpus {
		numa[i] = -1
		if gpu.NUMANode != nil {
			numa[i] = int(*gpu.NUMANode)
		}
	}
	return numa
}

func ratesOf(gpus []v1alpha1.GPU) topology.Rates {
	rates := topology.Rates{PCIe: pcieMBps, Socket: socketMBps}
	for _, gpu := range gpus {
		rates.NVLinks = max(rates.NVLinks, int(gpu.NVLinks))
		if n := int(gpu.NVLinkMBps); n > 0 && (rates.NVLink == 0 || n < rates.NVLink) {
			rates.NVLink = n
		}
	}
	if rates.NVLink == 0 {
		rates.NVLink = nvlinkMBps
	}
	return rates
}
