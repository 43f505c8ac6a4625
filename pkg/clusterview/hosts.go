// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tutti-project/tutti/pkg/placement"
	"github.com/tutti-project/tutti/pkg/topology"
)

// Hosts is the cluster as the planner sees it at one moment.
type Hosts struct {
	Tree  *topology.Tree
	infos []fwk.NodeInfo
	at    []int // at[host] is the position of the tree's host in infos
}

// Info is the node of the tree's host.
func (h Hosts) Info(host int) fwk.NodeInfo { return h.infos[h.at[host]] }

// Builder makes Hosts and keeps, from one snapshot to the next, what has not
// changed: the tree while no node comes, goes or changes a label that the
// levels read, and the planner of the nodes' free capacity. Not safe for
// concurrent use.
type Builder struct {
	levels []topology.Level
	tree   *topology.Tree
	// nodes are those that the tree was made of, in the order in which they
	// were given; host is the tree's index of each, and at the way back.
	nodes    []*v1.Node
	host, at []int
	// generations are the nodes' at the last snapshot. They are compared for
	// inequality only: those of what-if snapshots are newer than later real ones.
	generations []int64
	stale       []int // hosts whose free capacity the planner does not know yet

	planner *placement.Planner
	names   []string // of the planner's resources, sorted

	gpus   insides
	yields yields
}

// NewBuilder makes a Builder for levels from wide to narrow.
func NewBuilder(levels []topology.Level) *Builder { return &Builder{levels: levels} }

// Follow has planners know of the nodes' GPUs what topologies say at the time when
// a planner is asked for. Without it nothing is known of them.
func (b *Builder) Follow(topologies *Topologies, now func() time.Time) {
	b.gpus.topologies, b.gpus.now = topologies, now
}

// Build takes the nodes of one snapshot. It looks at the generation of each and
// at no more where that is the same: O(nodes log nodes) only after a change
// that concerns the tree.
func (b *Builder) Build(infos []fwk.NodeInfo) Hosts {
	if !b.current(infos) {
		b.rebuild(infos)
	}
	return Hosts{Tree: b.tree, infos: infos, at: b.at}
}

// current tells whether the tree still describes the nodes, and takes note of
// those that have changed otherwise.
func (b *Builder) current(infos []fwk.NodeInfo) bool {
	if b.tree == nil || len(infos) != len(b.nodes) {
		return false
	}
	for i, info := range infos {
		generation := info.GetGeneration()
		if generation == b.generations[i] {
			continue
		}
		node := info.Node()
		if node.Name != b.nodes[i].Name || !b.sameLevels(node, b.nodes[i]) {
			return false
		}
		b.nodes[i], b.generations[i] = node, generation
		b.stale = append(b.stale, b.host[i])
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
	b.at = make([]int, len(infos))
	b.generations = make([]int64, len(infos))
	for i, node := range b.nodes {
		b.host[i], _ = b.tree.HostIndex(node.Name)
		b.at[b.host[i]] = i
		b.generations[i] = infos[i].GetGeneration()
	}
	b.planner, b.stale = nil, nil
	b.gpus.keep(b.tree)
}
