// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tutti-project/tutti/pkg/placement"
)

// Planner returns the planner of the hosts last built, brought up to date with
// the nodes that have changed, and with what is known of their GPUs. Its vectors have every resource that a role has
// asked for so far and every device that a host has: devices count even when
// nobody asks for them, so that the planner can keep such hosts free.
func (b *Builder) Planner(hosts Hosts, roles []Role) *placement.Planner {
	names := map[string]bool{}
	for _, role := range roles {
		for name := range role.Request {
			names[name] = true
		}
	}
	if b.planner == nil {
		b.names = nil
		for host := range hosts.at {
			addDevices(names, hosts.Info(host))
		}
	}
	b.stale = append(b.stale, b.gpus.stale(hosts.Tree)...)
	for _, host := range b.stale {
		addDevices(names, hosts.Info(host))
	}
	known := len(b.names)
	for _, name := range b.names {
		names[name] = true
	}
	if b.planner == nil || len(names) > known {
		b.names = slices.Sorted(maps.Keys(names))
		free := freeOf(hosts, b.names)
		views := make([]hostView, len(free))
		for host := range views {
			views[host] = b.view(hosts.Info(host), free[host])
		}
		b.planner = placement.NewPlanner(hosts.Tree, b.names, free)
		for host, view := range views {
			view.tell(b.planner, host)
		}
		b.stale = b.stale[:0]
	}
	for _, host := range b.stale {
		free := make([]int64, len(b.names))
		fillFree(free, hosts.Info(host), b.names)
		view := b.view(hosts.Info(host), free)
		b.planner.SetFree(host, free)
		view.tell(b.planner, host)
	}
	b.stale = b.stale[:0]
	return b.planner
}

// hostView is what the planner is to know of a node beside its free vector.
type hostView struct {
	kind  string
	gpus  placement.HostGPUs
	empty placement.Change // its host is not set
}

// view reads a node. What nobody should get it takes from what is free.
func (b *Builder) view(info fwk.NodeInfo, free []int64) hostView {
	v := hostView{kind: kindOf(info), empty: placement.Change{Free: vectorOf(info.GetAllocatable(), b.names)}}
	if i, asked := slices.BinarySearch(b.names, podsResource); asked {
		v.empty.Free[i] = int64(info.GetAllocatable().GetAllowedPodNumber())
	}
	i, counted := slices.BinarySearch(b.names, gpuResource)
	if b.gpus.topologies == nil || !counted {
		return v
	}
	g := b.gpus.of(info)
	if g.counted {
		free[i], v.empty.Free[i] = min(free[i], g.usable), min(v.empty.Free[i], int64(g.well.Len()))
	}
	v.gpus, v.empty.GPUs = g.hostGPUs(i), g.well
	return v
}

func (v hostView) tell(planner *placement.Planner, host int) {
	planner.SetKind(host, v.kind)
	planner.SetGPUs(host, v.gpus)
	v.empty.Host = host
	planner.SetEmpty(v.empty)
}

// productLabel is the GPU model, as NVIDIA's feature discovery writes it.
const productLabel = "nvidia.com/gpu.product"

// kindOf is what uniform roles tell hosts apart by: the GPU model where it is
// known, and how many devices of each sort the node has ("A100 8x nvidia.com/gpu"):
// its capacity, so that one that fails does not make it another kind.
func kindOf(info fwk.NodeInfo) string {
	var parts []string
	if model := info.Node().Labels[productLabel]; model != "" {
		parts = append(parts, model)
	}
	capacity := info.Node().Status.Capacity
	for _, name := range slices.Sorted(maps.Keys(capacity)) {
		quantity := capacity[name]
		if n := quantity.Value(); n > 0 && placement.IsDevice(string(name)) {
			parts = append(parts, fmt.Sprintf("%dx %s", n, name))
		}
	}
	return strings.Join(parts, " ")
}

func addDevices(names map[string]bool, info fwk.NodeInfo) {
	for name := range info.GetAllocatable().GetScalarResources() {
		if placement.IsDevice(string(name)) {
			names[string(name)] = true
		}
	}
}

// freeOf returns what each host has left of each resource, in the order of the
// names given, in the units of Role.Request.
func freeOf(hosts Hosts, names []string) [][]int64 {
	free := make([][]int64, len(hosts.at))
	values := make([]int64, len(hosts.at)*len(names))
	for host := range free {
		free[host], values = values[:len(names):len(names)], values[len(names):]
		fillFree(free[host], hosts.Info(host), names)
	}
	return free
}

func fillFree(free []int64, info fwk.NodeInfo, names []string) {
	allocatable, requested := info.GetAllocatable(), info.GetRequested()
	for r, name := range names {
		free[r] = amount(allocatable, name) - amount(requested, name)
		if name == podsResource {
			free[r] = int64(allocatable.GetAllowedPodNumber() - len(info.GetPods()))
		}
	}
}

// Fits tells whether the node has room for a request beside another one that is kept
// there, in the units of Role.Request.
func Fits(info fwk.NodeInfo, request, kept map[string]int64) bool {
	names := slices.Sorted(maps.Keys(request))
	free := make([]int64, len(names))
	fillFree(free, info, names)
	for i, name := range names {
		if request[name] > free[i]-kept[name] {
			return false
		}
	}
	return true
}

// Holds tells whether a node that has so much, and nothing on it, has room for the
// request.
func Holds(allocatable v1.ResourceList, request map[string]int64) bool {
	for name, n := range request {
		quantity := allocatable[v1.ResourceName(name)]
		if n > valueOf(name, quantity) {
			return false
		}
	}
	return true
}

// vectorOf is what a pod holds, in the order of the names given.
func vectorOf(r fwk.Resource, names []string) []int64 {
	vector := make([]int64, len(names))
	for i, name := range names {
		if vector[i] = amount(r, name); name == podsResource {
			vector[i] = 1
		}
	}
	return vector
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
