// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

// A decision's objective is lexicographic. Its parts, most important first:
//
//	narrowest level               search.go: tier by tier
//	domains of a preferred level  search.go: candidate.spread
//	tightest domain               tight.go
//	fewest sub-domains, hosts     cover.go, bestfit.go; objective.go compares placements in one domain
//	preferences                   here: between hosts with equally many slots
//	order of the tree             bestfit.go: the last bits of a key
//
// A further preference between hosts is a row of the table and a file of its own.
// Together the rows make a number, so that hosts stay in one order from plan to
// plan.

// preference says what there is to lose with an offer: 0 for least, up to the
// largest number of so many bits.
type preference struct {
	name string
	bits int
	of   func(offer) int64
}

// preferences in the order in which they decide.
var preferences = []preference{
	{"promised bandwidth", 4, promisedBandwidth},
	{"best bandwidth", 4, bestBandwidth},
	{"islands broken", 3, islandsBroken},
	{"devices", 11, freeDevices},
}

// offer is a host for pods of one shape.
type offer struct {
	gpus    HostGPUs
	size    int   // GPUs of one pod
	devices int64 // free, of all kinds
}

// unknownRanks are those of hosts with so many devices and nothing known of their
// GPUs: a pass over all hosts spends most of its time on ranks.
var unknownRanks = func() (ranks [65]int64) {
	for devices := range ranks {
		ranks[devices] = offer{devices: int64(devices)}.rank()
	}
	return ranks
}()

// unknownRank is that of a host with so many devices and nothing known of its GPUs.
func unknownRank(devices int64) int64 {
	if uint64(devices) < uint64(len(unknownRanks)) {
		return unknownRanks[devices]
	}
	return offer{devices: devices}.rank()
}

// rank is the preferences in one number: less is better.
func (o offer) rank() int64 {
	rank := int64(0)
	for _, p := range preferences {
		rank = rank<<p.bits | min(p.of(o), 1<<p.bits-1)
	}
	return rank
}
