// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math/rand/v2"

	"github.com/tutti-project/tutti/pkg/topology"
)

// compress finds the period at which a pool of the cluster's GPUs, without
// hosts or fabric, is used to the wanted share in the window. No policy enters:
// all run the same trace.
func compress(s shape, gpus int, wanted float64) workload {
	low, high := 0.8, 1.25 // times the period whose mean load is the wanted one
	mean := s.load() / (wanted * float64(gpus))
	for range 12 {
		mid := (low + high) / 2
		if utilisation(s.repeat(mean*mid), gpus) > wanted {
			low = mid
		} else {
			high = mid
		}
	}
	return s.repeat(mean * (low + high) / 2)
}

func utilisation(w workload, gpus int) float64 {
	pool := newCluster(newFabric([]topology.HostLabels{{Name: "pool"}}))
	pool.free[0] = int64(gpus)
	return simulate(pool, policy{place: pooled}, w, false, 0).allocated.mean()
}

// pooled takes what is there.
func pooled(c *cluster, g gang, _ bool, _ *rand.Rand) []int {
	if c.free[0] < int64(g.size()) {
		return nil
	}
	return make([]int, g.pods)
}
