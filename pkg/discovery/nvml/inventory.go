// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"encoding/hex"
	"io/fs"
	"math"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
)

// entry is a GPU that could be opened.
type entry struct {
	device  Device
	gpu     v1alpha1.GPU
	minor   int
	virtual bool
	ends    ends
}

// inspect reads a GPU without its links. Of one that fails to answer it returns what it has said.
func inspect(sys fs.FS, device Device, index int) (entry, Return) {
	uuid, ret := device.UUID()
	if ret == Success && uuid == "" {
		ret = NotSupported
	}
	if ret != Success {
		return entry{}, ret
	}
	e := entry{device: device, minor: -1, gpu: v1alpha1.GPU{Index: int32(index), UUID: uuid}}
	if e.gpu.Model, ret = device.Name(); ret != Success {
		return e, ret
	}
	if bytes, ret := device.MemoryBytes(); ret == Success && bytes <= math.MaxInt64 {
		e.gpu.Memory = resource.NewQuantity(int64(bytes), resource.BinarySI)
		_ = e.gpu.Memory.String() // as it is when read back
	}
	if busID, ret := device.BusID(); ret == Success && isAddress(sysfsAddress(busID)) {
		address := sysfsAddress(busID)
		e.gpu.PCI, e.gpu.NUMANode = place(sys, address), numaNode(sys, address)
	}
	if minor, ret := device.Minor(); ret == Success {
		e.minor = minor
	}
	mig, ret := device.IsMIG()
	e.gpu.MIG = ret == Success && mig
	virtual, ret := device.IsVirtual()
	e.virtual = ret == Success && virtual
	return e, Success
}

func (e entry) address() string {
	if e.gpu.PCI == nil {
		return ""
	}
	return e.gpu.PCI.Address
}

// measure reads where the links of all GPUs lead. What is cut into instances or made up by a
// hypervisor has none.
func measure(sys fs.FS, entries []entry) {
	known := map[string]bool{}
	for _, e := range entries {
		if address := e.address(); address != "" {
			known[address] = true
		}
	}
	most := map[string]int{} // links by model
	for i := range entries {
		if e := &entries[i]; !e.gpu.MIG && !e.virtual {
			e.ends = linkEnds(sys, e.device, known)
			most[e.gpu.Model] = max(most[e.gpu.Model], e.ends.nominal)
		}
	}
	for i := range entries {
		if e := &entries[i]; !e.gpu.MIG && !e.virtual {
			// A GPU that hides links that are down still has as many as its like.
			e.gpu.NVLinks, e.gpu.NVLinkMBps = int32(most[e.gpu.Model]), e.ends.mbps
		}
	}
}

// links are those of all pairs that were measured; sure tells whether the driver answered for each.
func links(entries []entry) (found []v1alpha1.Link, sure bool) {
	sure = true
	for i, a := range entries {
		for _, b := range entries[i+1:] {
			bonds := bonded(a.ends, b.ends, a.address(), b.address())
			ancestor, ret := a.device.Ancestor(b.device)
			level, ok := levels[ancestor]
			sure = sure && (ret == Success || ret.isNo())
			if ret != Success || !ok {
				if bonds == 0 {
					continue // nothing is known of the pair
				}
				level = v1alpha1.PCIeAcrossNUMANode // at worst
			}
			found = append(found, v1alpha1.Link{From: a.gpu.Index, To: b.gpu.Index, NVLinks: bonds, PCIe: level})
		}
	}
	return found, sure
}

// fabric is the one that reaches beyond the node, if all GPUs are in the same partition of it; one
// that is lost has no say. On a single board the fabric is completed too, but has no identity.
func fabric(entries []entry) *v1alpha1.Fabric {
	var found *v1alpha1.Fabric
	for _, e := range entries {
		f, ret := e.device.Fabric()
		if ret.isLost() {
			continue
		}
		if ret != Success || f.State != FabricCompleted || f.Status != Success || f.ClusterUUID == [16]byte{} {
			return nil
		}
		own := &v1alpha1.Fabric{ClusterUUID: uuid(f.ClusterUUID), CliqueID: int64(f.CliqueID)}
		if found != nil && *found != *own {
			return nil
		}
		found = own
	}
	return found
}

func uuid(id [16]byte) string {
	digits := hex.EncodeToString(id[:])
	return strings.Join([]string{digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]}, "-")
}
