// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
)

const (
	pciDevices  = "bus/pci/devices"
	numaNodes   = "devices/system/node"
	switchClass = "0x0680" // a bridge of another kind, which is how an NVSwitch calls itself
)

// sysfsAddress is a bus id as sysfs writes it: 0000:07:00.0 for 00000000:07:00.0, and
// 10000:07:00.0 for 00010000:07:00.0.
func sysfsAddress(busID string) string {
	address := strings.ToLower(busID)
	domain, rest, ok := strings.Cut(address, ":")
	for ok && len(domain) > 4 && domain[0] == '0' {
		domain = domain[1:]
	}
	if !ok {
		return address
	}
	return domain + ":" + rest
}

// address is that of NodeTopology objects, less the domains that drivers make up where they may
// not say.
var address = regexp.MustCompile(`^[0-9a-f]{4,6}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

func isAddress(s string) bool { return address.MatchString(s) }

// place is the device's way to the CPU, or only its address where sysfs does not show it.
//
//	devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0
//	                   root port    switch       device
func place(sys fs.FS, address string) *v1alpha1.PCI {
	pci := &v1alpha1.PCI{Address: address}
	target, err := fs.ReadLink(sys, path.Join(pciDevices, address))
	if err != nil {
		return pci
	}
	var way []string
	for part := range strings.SplitSeq(target, "/") {
		if isAddress(part) {
			way = append(way, part)
		}
	}
	if len(way) < 2 {
		return pci
	}
	pci.Root = way[0]
	for i := len(way) - 2; i > 0; i-- {
		pci.Switches = append(pci.Switches, way[i])
	}
	return pci
}

// numaNode is the node with CPUs next to the device, or nil where it is unknown. On boards where a
// GPU's memory is a node of its own sysfs names that one, and the CPUs near the device tell.
func numaNode(sys fs.FS, address string) *int32 {
	node, err := strconv.Atoi(read(sys, path.Join(pciDevices, address, "numa_node")))
	if err != nil {
		return nil
	}
	if node >= 0 && read(sys, path.Join(numaNodes, fmt.Sprintf("node%d", node), "cpulist")) != "" {
		return new(int32(node))
	}
	cpu, ok := firstCPU(read(sys, path.Join(pciDevices, address, "local_cpulist")))
	if !ok {
		return nil
	}
	nodes, err := fs.Glob(sys, path.Join(numaNodes, "node[0-9]*"))
	if err != nil || node < 0 && len(nodes) > 1 {
		return nil // all CPUs are near a device of no node
	}
	for _, dir := range nodes {
		if number, err := strconv.Atoi(strings.TrimPrefix(path.Base(dir), "node")); err == nil &&
			contains(read(sys, path.Join(dir, "cpulist")), cpu) {
			return new(int32(number))
		}
	}
	return nil
}

func isSwitch(sys fs.FS, address string) bool {
	return strings.HasPrefix(read(sys, path.Join(pciDevices, address, "class")), switchClass)
}

// read is a file's content, or empty where it cannot be read.
func read(sys fs.FS, name string) string {
	data, err := fs.ReadFile(sys, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

func firstCPU(list string) (int, bool) {
	first, _, _ := strings.Cut(list, ",")
	first, _, _ = strings.Cut(first, "-")
	cpu, err := strconv.Atoi(first)
	return cpu, err == nil
}

// contains tells whether a list as in 0-3,8-11 has the CPU.
func contains(list string, cpu int) bool {
	for part := range strings.SplitSeq(list, ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		from, err := strconv.Atoi(low)
		to, errTo := strconv.Atoi(high)
		if err == nil && errTo == nil && from <= cpu && cpu <= to {
			return true
		}
	}
	return false
}
