// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	"github.com/tutti-project/tutti/pkg/topology"
)

// addExtras places pods beyond the minimum on what room the minimum has left:
// first in the domain that the gang stands in, then around it, never outside
// the scope. Pods without room stay out; nothing is moved to make some.
func (pl *plan) addExtras(f fill, full []int64, scope topology.Domain) {
	for _, ring := range pl.rings(f, scope) {
		hosts := span{first: ring.First, last: ring.Last}
		for _, r := range pl.order {
			missing := full[r]
			for _, s := range f[r] {
				missing -= s.pods
			}
			if missing > 0 {
				pl.room.add(r, missing, hosts, f, true)
			}
		}
	}
}

// rings lists the domains around the gang from the narrowest out to the scope.
func (pl *plan) rings(f fill, scope topology.Domain) []topology.Domain {
	first, last := pl.anchorFirst, pl.anchorLast
	for _, shares := range f {
		for _, s := range shares {
			first, last = min(first, s.host), max(last, s.host)
		}
	}
	var rings []topology.Domain
	if first <= last {
		for t, tr := range slices.Backward(pl.tiers) {
			d := tr.domains[pl.domainAt(t, first)]
			if scope.First <= d.First && d.Last <= scope.Last && last < d.Last {
				rings = append(rings, d)
			}
		}
	}
	if len(rings) == 0 {
		rings = append(rings, scope)
	}
	return rings
}
