// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
	"github.com/tutti-project/tutti/pkg/topology"
)

// board is what the spec of a NodeTopology says. It has the GPUs that pods can
// get whole: one that is cut into instances has no links, and is none of them.
type board struct {
	model   *topology.GPUs
	at      map[string]int // [UUID] its position in the model
	unknown string         // why there is no model
}

// Bandwidths that a NodeTopology does not tell, in MB/s per direction: PCIe 3.0 x16
// and what lies between two sockets. They are the least that GPUs worth linking
// have, so that a link that was measured never loses to one that was not.
const (
	pcieMBps   = 15750
	socketMBps = 10000
	nvlinkMBps = 20000 // of the first generation, where the driver does not say
)

// maxModels bounds how many kinds of boards are kept; beyond it all are made anew.
const maxModels = 1 << 10

// boards makes boards. Nodes with equal ones share a model, and what it finds out.
type boards struct {
	models map[string]*topology.GPUs // by what they are made of
	// known are the boards of nodes, made once for each generation of a spec.
	known map[string]knownBoard
}

type knownBoard struct {
	spec       *v1alpha1.NodeTopologySpec
	uid        types.UID
	generation int64
	board
}

// of is the board of a node.
func (b *boards) of(object *v1alpha1.NodeTopology) board {
	known, ok := b.known[object.Name]
	if ok && (known.spec == &object.Spec || known.uid != "" && known.uid == object.UID && known.generation == object.Generation) {
		return known.board
	}
	made := b.make(&object.Spec)
	if b.known == nil {
		b.known = map[string]knownBoard{}
	}
	b.known[object.Name] = knownBoard{&object.Spec, object.UID, object.Generation, made}
	return made
}

func (b *boards) make(spec *v1alpha1.NodeTopologySpec) board {
	var whole []v1alpha1.GPU
	for _, gpu := range spec.GPUs {
		if !gpu.MIG {
			whole = append(whole, gpu)
		}
	}
	slices.SortFunc(whole, func(a, b v1alpha1.GPU) int { return cmp.Compare(a.Index, b.Index) })
	made := board{at: map[string]int{}}
	position := map[int32]int{}
	for i, gpu := range whole {
		made.at[gpu.UUID], position[gpu.Index] = i, i
	}
	if len(made.at) < len(whole) || len(position) < len(whole) {
		made.unknown = "its NodeTopology lists a GPU twice"
		return made
	}
	links, err := matrixOf(spec.Links, position)
	if err == nil {
		made.model, err = b.model(links, numaOf(whole), ratesOf(whole))
	}
	if err != nil {
		made.unknown = "its NodeTopology cannot be used: " + err.Error()
	}
	return made
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

// model finds or makes the model.
func (b *boards) model(links [][]topology.Link, numa []int, rates topology.Rates) (*topology.GPUs, error) {
	var key strings.Builder
	fmt.Fprint(&key, links, numa, rates)
	if model, ok := b.models[key.String()]; ok {
		return model, nil
	}
	model, err := topology.NewGPUs(links, numa, rates)
	if err != nil {
		return nil, err
	}
	if b.models == nil || len(b.models) >= maxModels {
		b.models = map[string]*topology.GPUs{}
	}
	b.models[key.String()] = model
	return model, nil
}
