// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"io/fs"

	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
)

// maxLinks is more than any GPU has.
const maxLinks = 36

// hopper is the first compute capability whose links have a state of their own.
const hopper = 9

// ends is where the NVLinks of one GPU lead.
type ends struct {
	peers    map[string]int // links to each other GPU, by address
	switches int            // links to switches, or to what is hidden
	nominal  int            // links there are, those that are down included
	mbps     int32          // of one link
}

// linkEnds looks at all links of a device once.
func linkEnds(sys fs.FS, device Device, known map[string]bool) ends {
	found := ends{peers: map[string]int{}}
	for link := range maxLinks {
		p2p, ret := device.LinkCarriesP2P(link)
		if ret != Success { // there are no more
			break
		}
		if !p2p {
			continue
		}
		found.nominal++
		if !isUp(device, link) {
			continue
		}
		if found.mbps == 0 {
			found.mbps = rate(device, link)
		}
		if address, ok := peer(sys, device, link, known); ok {
			found.peers[address]++
		} else {
			found.switches++
		}
	}
	return found
}

func isUp(device Device, link int) bool {
	if major, ret := device.Major(); ret == Success && major >= hopper {
		if state, ret := device.LinkState(link); ret == Success {
			return state == LinkActive || state == LinkSleeping
		}
	}
	up, ret := device.LinkUp(link)
	return ret == Success && up
}

// peer is the GPU at the end of a link. Everything else is taken for a switch: in virtual machines
// switches are hidden, and their addresses are garbage.
func peer(sys fs.FS, device Device, link int, known map[string]bool) (string, bool) {
	if kind, ret := device.LinkRemoteType(link); ret == Success && kind == RemoteSwitch {
		return "", false
	}
	busID, ret := device.LinkRemoteBusID(link)
	if ret != Success {
		return "", false
	}
	address := sysfsAddress(busID)
	return address, known[address] && !isSwitch(sys, address)
}

// nominalMBps is what the generations of NVLink carry per link and direction, by NVML's numbers of
// them: 1.0, 2.0, 2.2, 3.0, 3.1, 4.0, 5.0, 6.0.
var nominalMBps = map[uint32]int32{1: 20000, 2: 25000, 3: 25000, 4: 25000, 5: 25000, 6: 25000, 7: 50000, 8: 50000}

// rate is that of a link's payload: the wire's less what its coding takes, or less where the board
// runs it slower.
func rate(device Device, link int) int32 {
	version, ret := device.LinkVersion(link)
	nominal := nominalMBps[version]
	if ret != Success {
		nominal = 0
	}
	measured, ret := device.LinkMBps()
	switch {
	case ret != Success || measured <= 0:
		return nominal
	case nominal == 0:
		return int32(measured)
	}
	return min(nominal, int32(measured))
}

// bonded is how many links join two GPUs, directly and through switches. Where the two disagree
// about a link, it is not up.
func bonded(a, b ends, addressA, addressB string) int32 {
	return int32(min(a.peers[addressB], b.peers[addressA]) + min(a.switches, b.switches))
}

// levels are NVML's numbers of common ancestors.
var levels = map[Ancestor]v1alpha1.PCIeLevel{
	0:  v1alpha1.PCIeSameBoard,
	10: v1alpha1.PCIeOneSwitch,
	20: v1alpha1.PCIeManySwitches,
	30: v1alpha1.PCIeHostBridge,
	40: v1alpha1.PCIeSameNUMANode,
	50: v1alpha1.PCIeAcrossNUMANode,
}
