// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

// promisedBandwidth is that which a pod has whatever happens: of the set that
// the planner picks, or of the worst that the device plugin may.
func promisedBandwidth(o offer) int64 {
	if o.gpus.PlannerPicks {
		return bestBandwidth(o)
	}
	return bandwidthLost(o, func(_, guaranteed int) int { return guaranteed })
}

// bestBandwidth is that of the best set.
func bestBandwidth(o offer) int64 {
	return bandwidthLost(o, func(best, _ int) int { return best })
}

// Bandwidths are compared in steps of the square root of two, from that of an
// old bus up: smaller differences are not worth breaking islands for.
const (
	leastBandwidth = 4000 // MB/s
	bandwidthSteps = 15
)

// bandwidthLost is how many steps a ring is below the fastest. GPUs that are not
// known are slower than any others.
func bandwidthLost(o offer, of func(best, guaranteed int) int) int64 {
	if o.gpus.Model == nil {
		return bandwidthSteps
	}
	b := int64(of(o.gpus.Model.Range(o.gpus.Free, o.size)))
	lost := int64(bandwidthSteps)
	for square := b * b; lost > 0 && square >= leastBandwidth*leastBandwidth; square /= 2 {
		lost--
	}
	return lost
}
