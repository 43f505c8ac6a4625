// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package inventory counts the devices of a cluster by the domains of its
// fabric: which are used, which are free, and how large a gang each level holds.
package inventory

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/tutti-project/tutti/pkg/clusterview"
	"github.com/tutti-project/tutti/pkg/placement"
	"github.com/tutti-project/tutti/pkg/snapshot"
	"github.com/tutti-project/tutti/pkg/topology"
)

// Report is the whole inventory.
type Report struct {
	Resource string
	Levels   []Level  // those that nodes carry, from the cluster to the host
	Domains  []Domain // in the order of the tree, a domain before those in it
}

// Level is what one level holds.
type Level struct {
	Name    string
	Domains int
	// LargestOfOne is how many pods of one device fit one domain; LargestOfWhole
	// how many that take all devices of a node.
	LargestOfOne, LargestOfWhole int64
}

// Domain is one domain's devices. Free ones of nodes that take no pods
// (cordoned, not ready) do not count as free.
type Domain struct {
	Level             int
	Description       string
	Nodes, NotReady   int
	Total, Used, Free int64
	WholeNodes        int64 // with devices, none of them used
}

type host struct {
	total, used int64
	ready       bool
}

func (h host) free() int64 {
	if !h.ready {
		return 0
	}
	return max(0, h.total-h.used)
}

func (h host) whole() int64 {
	if h.total > 0 && h.free() == h.total {
		return 1
	}
	return 0
}

// Of counts. Without a resource it takes the device that most nodes have. An
// error says that there is none.
func Of(s *snapshot.Snapshot, levels []topology.Level, resource string) (*Report, error) {
	nodes, err := snapshot.Typed[v1.Node](s, "Node")
	if err != nil {
		return nil, err
	}
	pods, err := snapshot.Typed[v1.Pod](s, "Pod")
	if err != nil {
		return nil, err
	}
	if resource == "" {
		if resource = Commonest(nodes); resource == "" {
			return nil, fmt.Errorf("no node has a device; give --resource to count something else, such as cpu")
		}
	}
	if had := resourcesOf(nodes); len(nodes) > 0 && !slices.Contains(had, resource) {
		return nil, fmt.Errorf("no node has %s; what nodes have is %s", resource, strings.Join(had, ", "))
	}
	labels := make([]topology.HostLabels, len(nodes))
	byName := map[string]*host{}
	for i, node := range nodes {
		labels[i] = topology.HostLabels{Name: node.Name, Labels: node.Labels}
		total := node.Status.Allocatable[v1.ResourceName(resource)]
		byName[node.Name] = &host{total: total.Value(), ready: TakesPods(node)}
	}
	for _, pod := range pods {
		h := byName[pod.Spec.NodeName]
		if h == nil || pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
			continue
		}
		h.used += clusterview.RequestOf(pod)[resource]
	}
	tree := topology.New(levels, labels)
	hosts := make([]host, tree.Hosts())
	for i := range hosts {
		hosts[i] = *byName[tree.HostName(i)]
	}
	report := &Report{Resource: resource}
	report.add(tree, hosts)
	return report, nil
}

// resourcesOf are the names of what nodes have to give.
func resourcesOf(nodes []*v1.Node) []string {
	found := map[string]bool{}
	for _, node := range nodes {
		for name, amount := range node.Status.Allocatable {
			if !amount.IsZero() {
				found[string(name)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func (r *Report) add(tree *topology.Tree, hosts []host) {
	at := map[int]int{} // the report's levels by the tree's
	for level, name := range tree.Levels() {
		if _, carried := tree.NodeLabels(level); !carried && level > 0 && level < len(tree.Levels())-1 {
			continue
		}
		at[level] = len(r.Levels)
		r.Levels = append(r.Levels, Level{Name: name, Domains: len(tree.Domains(level))})
	}
	var visit func(level, first, last int)
	visit = func(level, first, last int) {
		if level == len(tree.Levels()) {
			return
		}
		domains := tree.Domains(level) // in the order of their hosts
		begin, _ := slices.BinarySearchFunc(domains, first, func(d topology.Domain, host int) int { return d.First - host })
		for _, domain := range domains[begin:] {
			if domain.First >= last {
				break
			}
			if reported, ok := at[level]; ok {
				d := Domain{Level: reported, Description: tree.Describe(domain.ID)}
				for _, h := range hosts[domain.First:domain.Last] {
					d.count(h)
				}
				l := &r.Levels[reported]
				l.LargestOfOne, l.LargestOfWhole = max(l.LargestOfOne, d.Free), max(l.LargestOfWhole, d.WholeNodes)
				r.Domains = append(r.Domains, d)
			}
			visit(level+1, domain.First, domain.Last)
		}
	}
	visit(0, 0, len(hosts))
}

func (d *Domain) count(h host) {
	d.Nodes++
	if !h.ready {
		d.NotReady++
	}
	d.Total += h.total
	d.Used += h.used
	d.Free += h.free()
	d.WholeNodes += h.whole()
}

// TakesPods tells whether a pod without tolerations may go there.
func TakesPods(node *v1.Node) bool {
	if node.Spec.Unschedulable {
		return false
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == v1.NodeReady && condition.Status != v1.ConditionTrue {
			return false
		}
	}
	return true
}

// ResourceOf is the device that most nodes of a snapshot have, empty for none.
func ResourceOf(s *snapshot.Snapshot) string {
	nodes, err := snapshot.Typed[v1.Node](s, "Node")
	if err != nil {
		return ""
	}
	return Commonest(nodes)
}

// Commonest is the device that most nodes have, empty for none.
func Commonest(nodes []*v1.Node) string {
	count := map[string]int{}
	for _, node := range nodes {
		for name, quantity := range node.Status.Allocatable {
			if placement.IsDevice(string(name)) && !quantity.IsZero() {
				count[string(name)]++
			}
		}
	}
	best := ""
	for _, name := range slices.Sorted(maps.Keys(count)) {
		if count[name] > count[best] {
			best = name
		}
	}
	return best
}
