// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/tutti-project/tutti/pkg/placement"
	"github.com/tutti-project/tutti/pkg/topology"
)

// The fabric of the picture: 2 spines of 2 racks of 4 hosts of 8 GPUs.
const (
	gpus     = 8
	perRack  = 4
	perSpine = 2
	spines   = 2
	hosts    = perRack * perSpine * spines
)

// Levels of the fabric, by their place in the tree.
const (
	spineLevel = 1
	rackLevel  = 2
)

// taken is how many GPUs other pods have, host by host.
var taken = [hosts]int64{8, 8, 0, 0 /* r1 */, 4, 4, 0, 0 /* r2 */, 8, 0, 0, 0 /* r3 */, 0, 0, 0, 0 /* r4 */}

// wish is one panel: what a gang asks for, in the words of its manifest.
type wish struct {
	title      string
	roles      []placement.Role
	constraint placement.Constraint
}

func workers(pods int, each int64) placement.Role {
	return placement.Role{Name: "worker", Pods: pods, Minimum: pods, Request: []int64{each}}
}

var wishes = []wish{
	{"3 workers of 8 GPUs, no wish", []placement.Role{workers(3, 8)}, placement.Constraint{}},
	{"2 workers of 8 GPUs, no wish: whole racks are left alone", []placement.Role{workers(2, 8)}, placement.Constraint{}},
	{"6 workers of 8 GPUs, preferred-topology: rack", []placement.Role{workers(6, 8)}, placement.Constraint{Preferred: rackLevel}},
	{"6 workers of 8 GPUs, required-topology: rack", []placement.Role{workers(6, 8)}, placement.Constraint{Required: rackLevel}},
	{"6 workers of 8 GPUs, slice-size: 2, slice-topology: rack", []placement.Role{workers(6, 8)},
		placement.Constraint{SliceSize: 2, SliceLevel: rackLevel}},
	{"1 chief of 8, 4 workers of 4, required-topology: rack", []placement.Role{
		{Name: "chief", Pods: 1, Minimum: 1, Request: []int64{8}}, workers(4, 4),
	}, placement.Constraint{Required: rackLevel}},
}

func (w wish) problem() placement.Problem {
	levels := []topology.Level{{Name: "spine", NodeLabels: []string{"spine"}}, {Name: "rack", NodeLabels: []string{"rack"}}}
	var labels []topology.HostLabels
	p := placement.Problem{Resources: []string{"nvidia.com/gpu"}, Roles: w.roles, Constraint: w.constraint}
	for h := range hosts {
		rack := h / perRack
		labels = append(labels, topology.HostLabels{Name: fmt.Sprintf("n%02d", h+1), Labels: map[string]string{
			"rack": fmt.Sprintf("r%d", rack+1), "spine": fmt.Sprintf("s%d", rack/perSpine+1),
		}})
		p.Free = append(p.Free, []int64{gpus - taken[h]})
		p.Empty = append(p.Empty, placement.Change{Host: h, Free: []int64{gpus}})
	}
	p.Tree = topology.New(levels, labels)
	return p
}
