// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"sync"

	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
)

// Topologies is what agents say of the nodes' GPUs, object by object as it comes.
// Safe for concurrent use; the zero value is empty.
type Topologies struct {
	mu      sync.Mutex
	objects map[string]*v1alpha1.NodeTopology
	changed map[string]bool // since the last call of changes
}

// Set takes over an object, which is not to be written to any more.
func (t *Topologies) Set(object *v1alpha1.NodeTopology) { t.put(object.Name, object) }

// Delete forgets what was said of a node.
func (t *Topologies) Delete(node string) { t.put(node, nil) }

func (t *Topologies) put(node string, object *v1alpha1.NodeTopology) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.objects == nil {
		t.objects, t.changed = map[string]*v1alpha1.NodeTopology{}, map[string]bool{}
	}
	t.changed[node] = true
	if object == nil {
		delete(t.objects, node)
		return
	}
	t.objects[node] = object
}

// of is the object of a node; nil if there is none.
func (t *Topologies) of(node string) *v1alpha1.NodeTopology {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.objects[node]
}

// changes are the nodes of which something new was said since the last call, in
// no order.
func (t *Topologies) changes() []string {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.changed) == 0 {
		return nil
	}
	nodes := make([]string, 0, len(t.changed))
	for node := range t.changed {
		nodes = append(nodes, node)
	}
	clear(t.changed)
	return nodes
}
