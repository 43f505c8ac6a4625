// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
	"github.com/tutti-project/tutti/pkg/board"
	"github.com/tutti-project/tutti/pkg/topology"
)

// knownGPUs is what the spec of a NodeTopology says.
type knownGPUs struct {
	model   *topology.GPUs
	at      map[string]int // [UUID] its position in the model
	unknown string         // why there is no model
}

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
	knownGPUs
}

// of is the board of a node.
func (b *boards) of(object *v1alpha1.NodeTopology) knownGPUs {
	known, ok := b.known[object.Name]
	if ok && (known.spec == &object.Spec || known.uid != "" && known.uid == object.UID && known.generation == object.Generation) {
		return known.knownGPUs
	}
	made := b.make(&object.Spec)
	if b.known == nil {
		b.known = map[string]knownBoard{}
	}
	b.known[object.Name] = knownBoard{&object.Spec, object.UID, object.Generation, made}
	return made
}

func (b *boards) make(spec *v1alpha1.NodeTopologySpec) knownGPUs {
	read, err := board.Of(spec)
	if err != nil {
		return knownGPUs{unknown: "its NodeTopology cannot be used: " + err.Error()}
	}
	model, err := b.model(read)
	if err != nil {
		return knownGPUs{unknown: "its NodeTopology cannot be used: " + err.Error()}
	}
	return knownGPUs{model: model, at: read.Positions()}
}

// model finds or makes the model.
func (b *boards) model(read board.Board) (*topology.GPUs, error) {
	var key strings.Builder
	fmt.Fprint(&key, read.Links, read.NUMA, read.Rates)
	if model, ok := b.models[key.String()]; ok {
		return model, nil
	}
	model, err := read.Model()
	if err != nil {
		return nil, err
	}
	if b.models == nil || len(b.models) >= maxModels {
		b.models = map[string]*topology.GPUs{}
	}
	b.models[key.String()] = model
	return model, nil
}
