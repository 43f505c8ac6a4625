// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	corev1listers "k8s.io/client-go/listers/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/tutti-project/tutti/pkg/placement"
	"github.com/tutti-project/tutti/pkg/topology"
)

// LevelRoom is how the free devices of one resource lie at one level. Free
// counts on usable hosts only: those that are ready and not cordoned.
type LevelRoom struct {
	Level, Resource string
	// Largest is the most free devices in one domain: no gang that asks for more
	// fits into a domain of this level.
	Largest int64
	// Whole is the free devices in domains of which no device is in use, Broken
	// all others that are free.
	Whole, Broken int64
}

// RoomByLevel tells for each level and device how the free ones lie. podsOn
// lists the pods of a node. O(nodes log nodes + pods).
func RoomByLevel(levels []topology.Level, nodes []*v1.Node, podsOn func(node string) []*v1.Pod) []LevelRoom {
	labels := make([]topology.HostLabels, len(nodes))
	named := map[string]*v1.Node{}
	names := map[string]bool{}
	for i, node := range nodes {
		labels[i] = topology.HostLabels{Name: node.Name, Labels: node.Labels}
		named[node.Name] = node
		for name := range node.Status.Allocatable {
			if placement.IsDevice(string(name)) {
				names[string(name)] = true
			}
		}
	}
	tree := topology.New(levels, labels)
	devices := slices.Sorted(maps.Keys(names))
	free, used := make([][]int64, len(devices)), make([][]int64, len(devices))
	for d := range devices {
		free[d], used[d] = make([]int64, tree.Hosts()), make([]int64, tree.Hosts())
	}
	for host := range tree.Hosts() {
		node := named[tree.HostName(host)]
		held := devicesHeld(podsOn(node.Name))
		for d, name := range devices {
			used[d][host] = held[name]
			if allocatable, ok := node.Status.Allocatable[v1.ResourceName(name)]; ok && usable(node) {
				free[d][host] = max(0, allocatable.Value()-held[name])
			}
		}
	}
	var rooms []LevelRoom
	for level, name := range tree.Levels() {
		for d, device := range devices {
			room := LevelRoom{Level: name, Resource: device}
			for _, domain := range tree.Domains(level) {
				there, taken := sum(free[d][domain.First:domain.Last]), sum(used[d][domain.First:domain.Last])
				room.Largest = max(room.Largest, there)
				if taken == 0 {
					room.Whole += there
				} else {
					room.Broken += there
				}
			}
			rooms = append(rooms, room)
		}
	}
	return rooms
}

func usable(node *v1.Node) bool {
	return !node.Spec.Unschedulable && slices.ContainsFunc(node.Status.Conditions, func(c v1.NodeCondition) bool {
		return c.Type == v1.NodeReady && c.Status == v1.ConditionTrue
	})
}

// devicesHeld sums up what the pods ask for. Most pods ask for none.
func devicesHeld(pods []*v1.Pod) map[string]int64 {
	held := map[string]int64{}
	for _, pod := range pods {
		if !mayHoldDevices(pod) {
			continue
		}
		for name, quantity := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
			if placement.IsDevice(string(name)) {
				held[string(name)] += quantity.Value()
			}
		}
	}
	return held
}

func mayHoldDevices(pod *v1.Pod) bool {
	asks := func(c v1.Container) bool {
		for name := range c.Resources.Requests {
			if placement.IsDevice(string(name)) {
				return true
			}
		}
		return false
	}
	return slices.ContainsFunc(pod.Spec.Containers, asks) || slices.ContainsFunc(pod.Spec.InitContainers, asks)
}

func sum(values []int64) int64 {
	n := int64(0)
	for _, v := range values {
		n += v
	}
	return n
}

// CapacityOf is what every host of the tree would have free if it were empty,
// in the order of the names given; nothing where its node is gone.
func CapacityOf(tree *topology.Tree, names []string, nodes corev1listers.NodeLister) [][]int64 {
	capacity := make([][]int64, tree.Hosts())
	for host := range capacity {
		capacity[host] = make([]int64, len(names))
		node, err := nodes.Get(tree.HostName(host))
		if err != nil {
			continue // the tree is a little older than the list
		}
		for r, name := range names {
			if quantity, ok := node.Status.Allocatable[v1.ResourceName(name)]; ok {
				capacity[host][r] = valueOf(name, quantity)
			}
		}
	}
	return capacity
}
