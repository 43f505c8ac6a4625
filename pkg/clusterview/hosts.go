// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tutti-project/tutti/pkg/topology"
)

// Hosts is the cluster as the planner sees it at one moment: Infos[i] is the
// node of the tree's host i.
type Hosts struct {
	Tree  *topology.Tree
	Infos []fwk.NodeInfo
}

// Builder makes Hosts and keeps the tree while no node comes, goes or changes
// a label that the levels read. Not safe for concurrent use.
type Builder struct {
	levels []topology.Level
	tree   *topology.Tree
	// nodes are those that the tree was made of, in the order in which they
	// were given; host is the tree's index of each.
	nodes []*v1.Node
	host  []int
}

// NewBuilder makes a Builder for levels from wide to narrow.
func NewBuilder(levels []topology.Level) *Builder { return &Builder{levels: levels} }

// Build takes the nodes of one snapshot. O(nodes); O(nodes log nodes) after a
// change that concerns the tree.
func (b *Builder) Build(infos []fwk.NodeInfo) Hosts {
	if !b.current(infos) {
		b.rebuild(infos)
	}
	ordered := make([]fwk.NodeInfo, len(infos))
	for i, info := range infos {
		ordered[b.host[i]] = info
	}
	return Hosts{Tree: b.tree, Infos: ordered}
}

// current tells whether the tree still describes the nodes. It remembers the
// node objects that it has compared, so that an unchanged one costs a pointer
// comparison.
func (b *Builder) current(infos []fwk.NodeInfo) bool {
	if b.tree == nil || len(infos) != len(b.nodes) {
		return false
	}
	for i, info := range infos {
		node := info.Node()
		if node == b.nodes[i] {
			continue
		}
		if node.Name != b.nodes[i].Name || !b.sameLevels(node, b.nodes[i]) {
			return false
		}
		b.nodes[i] = node
	}
	return true
}

func (b *Builder) sameLevels(x, y *v1.Node) bool {
	for _, level := range b.levels {
		for _, label := range level.NodeLabels {
			if x.Labels[label] != y.Labels[label] {
				return false
			}
		}
	}
	return true
}

func (b *Builder) rebuild(infos []fwk.NodeInfo) {
	b.nodes = make([]*v1.Node, len(infos))
	hosts := make([]topology.HostLabels, len(infos))
	for i, info := range infos {
		b.nodes[i] = info.Node()
		hosts[i] = topology.HostLabels{Name: b.nodes[i].Name, Labels: b.nodes[i].Labels}
	}
	b.tree = topology.New(b.levels, hosts)
	b.host = make([]int, len(infos))
	for i, node := range b.nodes {
		b.host[i], _ = b.tree.HostIndex(node.Name)
	}
}

// Free returns what each host has left of each resource, in the order of the
// names given, in the units of Resources.
func (h Hosts) Free(resources []string) [][]int64 {
	free := make([][]int64, len(h.Infos))
	values := make([]int64, len(h.Infos)*len(resources))
	for i, info := range h.Infos {
		free[i], values = values[:len(resources):len(resources)], values[len(resources):]
		allocatable, requested := info.GetAllocatable(), info.GetRequested()
		for r, name := range resources {
			free[i][r] = amount(allocatable, name) - amount(requested, name)
			if name == podsResource {
				free[i][r] = int64(allocatable.GetAllowedPodNumber() - len(info.GetPods()))
			}
		}
	}
	return free
}

func amount(r fwk.Resource, name string) int64 {
	switch v1.ResourceName(name) {
	case v1.ResourceCPU:
		return r.GetMilliCPU()
	case v1.ResourceMemory:
		return r.GetMemory()
	case v1.ResourceEphemeralStorage:
		return r.GetEphemeralStorage()
	default:
		return r.GetScalarResources()[v1.ResourceName(name)]
	}
}
