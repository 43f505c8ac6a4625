// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"math"

	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/tutti-project/tutti/pkg/topology"
)

// yields is what the hosts' pods may give up, kept by node generation: most
// gangs that do not fit have nobody to evict, and that is to cost next to nothing.
type yields struct {
	tree        *topology.Tree
	generations []int64 // [host]
	lowest      []int32 // [host] priority of a pod
	leaving     []bool  // [host] a pod is being deleted
}

// Yields tells whether any pod is being deleted or has less than the priority:
// without one, EvictionOf finds nothing. O(hosts), and O(pods) of those that have
// changed since the last call.
func (b *Builder) Yields(hosts Hosts, priority int32) bool {
	y := &b.yields
	if y.tree != hosts.Tree {
		n := len(hosts.at)
		*y = yields{tree: hosts.Tree, generations: make([]int64, n), lowest: make([]int32, n), leaving: make([]bool, n)}
		for host := range n {
			y.generations[host] = hosts.Info(host).GetGeneration()
			y.look(hosts, host)
		}
	}
	any := false
	for host := range y.generations {
		if generation := hosts.Info(host).GetGeneration(); generation != y.generations[host] {
			y.generations[host] = generation
			y.look(hosts, host)
		}
		any = any || y.leaving[host] || y.lowest[host] < priority
	}
	return any
}

func (y *yields) look(hosts Hosts, host int) {
	y.lowest[host], y.leaving[host] = math.MaxInt32, false
	for _, info := range hosts.Info(host).GetPods() {
		pod := info.GetPod()
		y.lowest[host] = min(y.lowest[host], corev1helpers.PodPriority(pod))
		y.leaving[host] = y.leaving[host] || pod.DeletionTimestamp != nil
	}
}
