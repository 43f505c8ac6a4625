// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/tutti-project/tutti/pkg/clusterview"
	"github.com/tutti-project/tutti/pkg/inventory"
	"github.com/tutti-project/tutti/pkg/topology"
)

// Of draws a view. It is O(nodes + pods) but for sorting.
func Of(view *View, levels []topology.Level) *State {
	labels := make([]topology.HostLabels, len(view.Nodes))
	nodes := make(map[string]*v1.Node, len(view.Nodes))
	for i, node := range view.Nodes {
		labels[i] = topology.HostLabels{Name: node.Name, Labels: node.Labels}
		nodes[node.Name] = node
	}
	tree := topology.New(levels, labels)
	state := &State{
		Resource: inventory.Commonest(view.Nodes),
		Trouble:  view.Trouble,
		Levels:   []string{}, Domains: []Domain{}, Hosts: make([]Host, tree.Hosts()), Boards: []Board{}, Drafts: []Gang{},
	}
	state.addDomains(tree)
	members := gather(view)
	state.Gangs = members.gangs(state.Resource, tree)
	state.addHosts(tree, nodes, boardsOf(view.Topologies), members)
	return state
}

// addDomains lists what labels name: a host or a narrower domain that stands in
// for a missing label is left out.
func (s *State) addDomains(tree *topology.Tree) {
	at := map[int]int{}
	all := tree.Levels()
	for level := 1; level < len(all)-1; level++ {
		if _, carried := tree.NodeLabels(level); carried {
			at[level] = len(s.Levels)
			s.Levels = append(s.Levels, all[level])
		}
	}
	for level, shown := range at {
		for _, d := range tree.Domains(level) {
			if tree.IsNamed(d.ID) {
				s.Domains = append(s.Domains, Domain{Level: shown, Name: d.Name, First: d.First, Last: d.Last})
			}
		}
	}
	slices.SortFunc(s.Domains, func(a, b Domain) int {
		return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Level, b.Level))
	})
}

func (s *State) addHosts(tree *topology.Tree, nodes map[string]*v1.Node, boards map[string]*device, members *members) {
	shared := map[string]int{} // boards by what they look like
	for i := range s.Hosts {
		name := tree.HostName(i)
		node, d := nodes[name], boards[name]
		allocatable := node.Status.Allocatable[v1.ResourceName(s.Resource)]
		host := Host{Name: name, Board: -1, Closed: closed(node)}
		count := int(allocatable.Value())
		if d != nil && len(d.at) >= count && count > 0 {
			count = len(d.at)
			host.Board = s.share(shared, d)
		} else {
			d = nil
		}
		host.GPUs, host.Exact = occupants(count, d, s.Resource, members.on[name])
		s.Hosts[i] = host
	}
}

func (s *State) share(shared map[string]int, d *device) int {
	index, ok := shared[d.key]
	if !ok {
		index = len(s.Boards)
		shared[d.key] = index
		s.Boards = append(s.Boards, d.board)
	}
	return index
}

func closed(node *v1.Node) string {
	switch {
	case inventory.TakesPods(node):
		return ""
	case node.Spec.Unschedulable:
		return "cordoned"
	}
	return "not ready"
}

// occupants gives each device its gang: as the agent reports, and else, with
// exact false, the first ones that are left.
func occupants(count int, d *device, resource string, pods []member) (gpus []int, exact bool) {
	gpus = make([]int, count)
	for i := range gpus {
		gpus[i] = freeDevice
	}
	if d != nil {
		for _, uuid := range d.unhealthy {
			if i, ok := d.at[uuid]; ok {
				gpus[i] = unhealthyDevice
			}
		}
	}
	exact = d != nil
	var left []int // gangs of devices whose place is unknown
	for _, pod := range pods {
		asked := int(clusterview.RequestOf(pod.pod)[resource])
		given := 0
		if d != nil {
			for _, uuid := range d.given[keyOf(pod.pod)] {
				if i, ok := d.at[uuid]; ok {
					gpus[i] = pod.gang
					given++
				}
			}
		}
		exact = exact && given == asked
		left = append(left, slices.Repeat([]int{pod.gang}, max(0, asked-given))...)
	}
	for i := 0; i < count && len(left) > 0; i++ {
		if gpus[i] == freeDevice {
			gpus[i], left = left[0], left[1:]
		}
	}
	return gpus, exact
}
