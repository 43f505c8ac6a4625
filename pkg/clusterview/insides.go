// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"container/heap"
	"maps"
	"time"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tutti-project/tutti/pkg/topology"
)

// insides is what a Builder knows of what is inside its nodes. It reads a node
// again when the node has changed, when its NodeTopology has, and when that has
// become too old, and else not.
type insides struct {
	topologies *Topologies
	now        func() time.Time
	boards     boards
	expiries   expiries
	until      map[string]time.Time // by node, the expiry that counts
}

// stale are the hosts to read again though their nodes are the same: O(k log hosts).
func (in *insides) stale(tree *topology.Tree) []int {
	if in.topologies == nil {
		return nil
	}
	var hosts []int
	add := func(node string) {
		if host, ok := tree.HostIndex(node); ok {
			hosts = append(hosts, host)
		}
	}
	for _, node := range in.topologies.changes() {
		add(node)
	}
	for now := in.now(); len(in.expiries) > 0 && !now.Before(in.expiries[0].at); {
		e := heap.Pop(&in.expiries).(expiry)
		if in.until[e.node].Equal(e.at) {
			delete(in.until, e.node)
			add(e.node)
		}
	}
	return hosts
}

// of is what is known of a node's GPUs now.
func (in *insides) of(info fwk.NodeInfo) nodeGPUs {
	node := info.Node().Name
	g := in.boards.gpusOf(info, in.topologies.of(node), in.now())
	if !g.until.IsZero() && !in.until[node].Equal(g.until) {
		if in.until == nil {
			in.until = map[string]time.Time{}
		}
		in.until[node] = g.until
		heap.Push(&in.expiries, expiry{node, g.until})
	}
	return g
}

// keep forgets nodes that are no hosts of the tree.
func (in *insides) keep(tree *topology.Tree) {
	maps.DeleteFunc(in.boards.known, func(node string, _ knownBoard) bool {
		_, ok := tree.HostIndex(node)
		return !ok
	})
}

// expiry is when what was read of a node is no longer true.
type expiry struct {
	node string
	at   time.Time
}

// expiries is a heap, the soonest first. Each heartbeat adds one; those that it
// replaces are dropped when their time has come.
type expiries []expiry

func (e expiries) Len() int           { return len(e) }
func (e expiries) Less(i, j int) bool { return e[i].at.Before(e[j].at) }
func (e expiries) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }

// Push implements heap.Interface.
func (e *expiries) Push(x any) { *e = append(*e, x.(expiry)) }

// Pop implements heap.Interface.
func (e *expiries) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}
