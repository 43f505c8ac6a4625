// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
)

// Merge puts the facts of several sources together. Of what two of them saw, the first counts;
// the exception are unhealthy GPUs, which are those of all.
func Merge(all ...Facts) Facts {
	var merged Facts
	for _, facts := range all {
		if merged.Hardware == nil {
			merged.Hardware = facts.Hardware
		}
		if merged.Devices == nil {
			merged.Devices = facts.Devices
		}
		if merged.Minors == nil {
			merged.Minors = facts.Minors
		}
		if merged.Told == nil {
			merged.Told = facts.Told
		}
		for _, gpu := range facts.Unhealthy {
			same := func(u v1alpha1.UnhealthyGPU) bool { return u.UUID == gpu.UUID }
			if !slices.ContainsFunc(merged.Unhealthy, same) {
				merged.Unhealthy = append(merged.Unhealthy, gpu)
			}
		}
	}
	slices.SortFunc(merged.Unhealthy, func(a, b v1alpha1.UnhealthyGPU) int { return cmp.Compare(a.UUID, b.UUID) })
	return merged
}

// ClaimDriver is the DRA driver of GPUs.
const ClaimDriver = "gpu.nvidia.com"

// ClaimedGPU begins the ids of whole GPUs that are given by claims; the minor number follows.
const ClaimedGPU = ClaimDriver + "/gpu-"

// Free are the UUIDs of the whole GPUs that a pod could get now, in order of index. A GPU that is
// shared, cut into instances or unhealthy is none; nor is one that the kubelet does not offer.
// Facts without Devices have no free GPUs: nobody has said which are given.
func (f Facts) Free() []string {
	if f.Hardware == nil || f.Devices == nil {
		return nil
	}
	taken := f.taken()
	var free []string
	for _, gpu := range f.Hardware.GPUs {
		if !gpu.MIG && !taken[gpu.UUID] && f.offers(gpu.UUID) {
			free = append(free, gpu.UUID)
		}
	}
	return free
}

func (f Facts) taken() map[string]bool {
	taken := map[string]bool{}
	for _, gpu := range f.Unhealthy {
		taken[gpu.UUID] = true
	}
	for _, id := range f.Devices.Shared {
		uuid, _, _ := strings.Cut(id, "::")
		taken[uuid] = true
	}
	for _, given := range f.Devices.Given {
		for _, id := range given.IDs {
			taken[f.uuid(id)] = true
		}
	}
	return taken
}

// offers: where GPUs are given by claims the kubelet lists none as allocatable.
func (f Facts) offers(uuid string) bool {
	return f.onlyClaims() || slices.Contains(f.Devices.Allocatable, uuid)
}

func (f Facts) onlyClaims() bool {
	if len(f.Devices.Allocatable) > 0 {
		return false
	}
	for _, given := range f.Devices.Given {
		if slices.ContainsFunc(given.IDs, func(id string) bool { return strings.HasPrefix(id, ClaimedGPU) }) {
			return true
		}
	}
	return false
}

// uuid is the GPU behind an id.
func (f Facts) uuid(id string) string {
	if uuid, _, ok := strings.Cut(id, "::"); ok {
		return uuid
	}
	if minor, ok := strings.CutPrefix(id, ClaimedGPU); ok {
		for _, uuid := range slices.Sorted(maps.Keys(f.Minors)) {
			if strconv.Itoa(f.Minors[uuid]) == minor {
				return uuid
			}
		}
	}
	return id
}

// Unplaced are ids that pods hold and that are nothing this node is known to have: with them the
// free GPUs are not certain.
func (f Facts) Unplaced() []string {
	if f.Hardware == nil || f.Devices == nil {
		return nil
	}
	known := map[string]bool{}
	for _, gpu := range f.Hardware.GPUs {
		known[gpu.UUID] = true
	}
	for _, gpu := range f.Unhealthy {
		known[gpu.UUID] = true
	}
	for _, id := range f.Devices.Instances {
		known[id] = true
	}
	var unplaced []string
	for _, given := range f.Devices.Given {
		for _, id := range given.IDs {
			// Shares of an instance are listed as such, and not the instance.
			if uuid := f.uuid(id); !known[uuid] && !strings.HasPrefix(uuid, "MIG-") {
				unplaced = append(unplaced, id)
			}
		}
	}
	slices.Sort(unplaced)
	return slices.Compact(unplaced)
}

// Held are the whole GPUs of the node that pods hold, in order of index, by pod. Two pods of one name,
// as when one is still ending while its successor starts, are one.
func (f Facts) Held() []v1alpha1.GivenGPUs {
	if f.Hardware == nil || f.Devices == nil {
		return nil
	}
	type pod struct{ namespace, name string }
	var pods []pod
	ids := map[pod]map[string]bool{}
	for _, given := range f.Devices.Given {
		p := pod{given.Namespace, given.Pod}
		if ids[p] == nil {
			pods, ids[p] = append(pods, p), map[string]bool{}
		}
		for _, id := range given.IDs {
			if !strings.Contains(id, "::") {
				ids[p][f.uuid(id)] = true
			}
		}
	}
	var held []v1alpha1.GivenGPUs
	for _, p := range pods {
		own := v1alpha1.GivenGPUs{Namespace: p.namespace, Pod: p.name}
		for _, gpu := range f.Hardware.GPUs {
			if ids[p][gpu.UUID] {
				own.GPUs = append(own.GPUs, gpu.UUID)
			}
		}
		if len(own.GPUs) > 0 {
			held = append(held, own)
		}
	}
	return held
}

// Pods are those that hold any device.
func (d Devices) Pods() []string {
	var pods []string
	for _, given := range d.Given {
		pods = append(pods, given.Namespace+"/"+given.Pod)
	}
	return pods
}
