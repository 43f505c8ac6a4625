// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"io/fs"
	"math"
	"slices"

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

	seen   []seenLink // those between GPUs
	unsure bool       // the driver failed to answer some question
}

// seenLink is a link as it was when it was measured.
type seenLink struct {
	number int
	up     bool
}

// linkEnds looks at all links of a device once.
func linkEnds(sys fs.FS, device Device, known map[string]bool) ends {
	found := ends{peers: map[string]int{}}
	for link := range maxLinks {
		p2p, ret := device.LinkCarriesP2P(link)
		if ret != Success { // there are no more
			found.unsure = found.unsure || !ret.isNo()
			break
		}
		if !p2p {
			continue
		}
		found.nominal++
		up, sure := isUp(device, link)
		found.seen, found.unsure = append(found.seen, seenLink{link, up}), found.unsure || !sure
		if !up {
			continue
		}
		if found.mbps == 0 {
			found.mbps = rate(device, link)
		}
		address, isGPU, sure := peer(sys, device, link, known)
		if isGPU {
			found.peers[address]++
		} else {
			found.switches++
		}
		found.unsure = found.unsure || !sure
	}
	return found
}

// isUp is not sure where the driver fails to answer.
func isUp(device Device, link int) (up, sure bool) {
	if major, ret := device.Major(); ret == Success && major >= hopper {
		if state, ret := device.LinkState(link); ret == Success {
			return state == LinkActive || state == LinkSleeping, true
		}
	}
	up, ret := device.LinkUp(link)
	return ret == Success && up, ret == Success || ret.isNo()
}

// relinked: one of the links that were measured came up or went down. A GPU that is lost takes
// links of others with it; what was known of the node is kept then.
func relinked(entries []entry) bool {
	changed := false
	for _, e := range entries {
		if _, ret := e.device.UUID(); ret != Success {
			return false
		}
		changed = changed || slices.ContainsFunc(e.ends.seen, func(l seenLink) bool {
			up, sure := isUp(e.device, l.number)
			return sure && up != l.up
		})
	}
	return changed
}

// peer is the GPU at the end of a link. Everything else is taken for a switch: in virtual machines
// switches are hidden, and their addresses are garbage.
func peer(sys fs.FS, device Device, link int, known map[string]bool) (address string, isGPU, sure bool) {
	if kind, ret := device.LinkRemoteType(link); ret == Success && kind == RemoteSwitch {
		return "", false, true
	}
	busID, ret := device.LinkRemoteBusID(link)
	if ret != Success {
		return "", false, ret.isNo()
	}
	address = sysfsAddress(busID)
	return address, known[address] && !isSwitch(sys, address), true
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
	case ret != Success || measured <= 0 || measured > math.MaxInt32:
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
