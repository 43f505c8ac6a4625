// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import "slices"

// objective is what a placement is judged by, most important first; less is
// better. It is for comparing placements inside one domain.
//
//	unplaced   pods that found no room
//	level      how much wider than what is near enough
//	domains    used, by level from wide to narrow; with a preferred level, from there on
//	strangers  pods without devices on hosts that have devices left for others
//	load       of the most loaded uplink between servers and workers, by level
//	           from wide to narrow (servers.go)
//	hosts      used
//	load       of a host's uplink: last, for it would break as many whole hosts as there are
type objective []int64

func (o objective) unplaced() int64  { return o[0] }
func (o objective) strangers() int64 { return o[(len(o)-2)/2+1] }
func (o objective) hosts() int64     { return o[len(o)-2] }

// tally keeps, for pods on the hosts of one domain, what their objective needs.
type tally struct {
	pl    *plan
	hosts []int // of the domain, in tree order
	near  int   // tier that is near enough

	at       [][]int   // [tier][host] its domain, counted from the first one
	used     [][]int64 // [tier][domain] pods, and anchors
	distinct []int64   // [tier] domains used
	count    [][]int64 // [role][host]
	left     [][]int64 // [host][resource]
	missing  int64     // pods given up
	serves   bool      // there are servers,
	works    bool      // and others
}

// newTally is of hosts in tree order, all anchors among them, without pods.
func newTally(pl *plan, hosts []int, full []int64) *tally {
	y := &tally{pl: pl, hosts: hosts, near: len(pl.tiers) - 1, distinct: make([]int64, len(pl.tiers))}
	preferred := pl.tierOf[pl.p.Constraint.Preferred]
	if preferred > 0 && !pl.isSingle(full) {
		y.near = max(pl.tierOf[pl.p.Constraint.Required], preferred)
	}
	for _, h := range hosts {
		y.left = append(y.left, slices.Clone(pl.freeOn(h)))
	}
	for tier := range pl.tiers {
		at := make([]int, len(hosts))
		for i := 1; i < len(hosts); i++ {
			at[i] = at[i-1]
			if pl.domainAt(tier, hosts[i]) != pl.domainAt(tier, hosts[i-1]) {
				at[i]++
			}
		}
		y.at = append(y.at, at)
		y.used = append(y.used, make([]int64, at[len(at)-1]+1))
	}
	for i, h := range hosts {
		if pl.tiers[len(pl.tiers)-1].anchored[h] {
			y.occupy(i, 1)
		}
	}
	for r, n := range full {
		y.count = append(y.count, make([]int64, len(y.hosts)))
		y.serves = y.serves || n > 0 && pl.p.Roles[r].Serves
		y.works = y.works || n > 0 && !pl.p.Roles[r].Serves
	}
	return y
}

func totalOf(pods []int64) (n int64) {
	for _, p := range pods {
		n += p
	}
	return n
}

// worthOf is the objective of a placement.
func (pl *plan) worthOf(ranks [][]int) objective {
	used, full := slices.Clone(pl.p.Anchors), make([]int64, len(ranks))
	for r := range ranks {
		full[r] = int64(len(ranks[r]))
		used = append(used, ranks[r]...)
	}
	slices.Sort(used)
	used = slices.DeleteFunc(slices.Compact(used), func(h int) bool { return h == Unplaced })
	if len(used) == 0 {
		return objective{totalOf(full)}
	}
	y := newTally(pl, used, full)
	for r := range ranks {
		for _, h := range ranks[r] {
			if i, ok := slices.BinarySearch(used, h); ok {
				y.add(r, i)
			} else {
				y.missing++
			}
		}
	}
	return y.value(nil)
}

func (y *tally) occupy(host int, pods int64) {
	for t := range y.at {
		used := &y.used[t][y.at[t][host]]
		if *used == 0 {
			y.distinct[t]++
		}
		if *used += pods; *used == 0 {
			y.distinct[t]--
		}
	}
}

func (y *tally) add(role, host int)    { y.move(role, host, 1) }
func (y *tally) remove(role, host int) { y.move(role, host, -1) }

func (y *tally) move(role, host int, pods int64) {
	y.count[role][host] += pods
	for d, n := range y.pl.p.Roles[role].Request {
		y.left[host][d] -= max(n, 0) * pods
	}
	y.occupy(host, pods)
}

func (y *tally) hasRoom(role, host int) bool {
	if y.pl.shapes[role].link > 0 {
		taken := make([]int64, len(y.count))
		for r := range taken {
			taken[r] = y.count[r][host]
		}
		return y.pl.slotsBeside(role, y.hosts[host], y.left[host], taken) > 0
	}
	for d, n := range y.pl.p.Roles[role].Request {
		if n > 0 && y.left[host][d] < n {
			return false
		}
	}
	return true
}

func (y *tally) isUnused(host int) bool { return y.used[len(y.used)-1][host] == 0 }

// keepsSlices says whether the role's pods can be cut into whole slices and a short one.
func (y *tally) keepsSlices(role int) bool {
	c := y.pl.p.Constraint
	if c.SliceSize <= 1 {
		return true
	}
	at, short := y.at[y.pl.tierOf[c.SliceLevel]], 0
	for first := 0; first < len(at); {
		pods, last := int64(0), first
		for ; last < len(at) && at[last] == at[first]; last++ {
			pods += y.count[role][last]
		}
		if pods%int64(c.SliceSize) != 0 {
			short++
		}
		first = last
	}
	return short <= 1
}

// value appends the objective.
func (y *tally) value(o objective) objective {
	last := len(y.at) - 1
	o = y.spreadOut(append(o, y.missing))
	workers, servers := int64(0), int64(0)
	if y.serves && y.works {
		workers, servers = y.exchanging()
	}
	o = append(o, y.countStrangers())
	for t := 1; t < last; t++ {
		o = append(o, y.load(t, workers, servers))
	}
	return append(o, y.distinct[last], y.load(last, workers, servers))
}

// spreadOut appends level and domains.
func (y *tally) spreadOut(o objective) objective {
	level := 0
	for level < y.near && y.distinct[level+1] == 1 {
		level++
	}
	o = append(o, int64(y.near-level))
	for t := 1; t < len(y.at)-1; t++ {
		n := int64(0)
		if t >= max(level+1, y.pl.tierOf[y.pl.p.Constraint.Preferred]) {
			n = y.distinct[t]
		}
		o = append(o, n)
	}
	return o
}

func (y *tally) exchanging() (workers, servers int64) {
	for r, counts := range y.count {
		for _, n := range counts {
			if y.pl.p.Roles[r].Serves {
				servers += n
			} else {
				workers += n
			}
		}
	}
	return workers, servers
}

// load is what the most loaded uplink of the tier carries.
func (y *tally) load(t int, workers, servers int64) int64 {
	if workers == 0 || servers == 0 {
		return 0
	}
	most, w, s := int64(0), int64(0), int64(0)
	for i, k := range y.at[t] {
		for r, counts := range y.count {
			if y.pl.p.Roles[r].Serves {
				s += counts[i]
			} else {
				w += counts[i]
			}
		}
		if i+1 == len(y.at[t]) || y.at[t][i+1] != k {
			most = max(most, w*(servers-s)+s*(workers-w))
			w, s = 0, 0
		}
	}
	return most
}

func (y *tally) countStrangers() int64 {
	n := int64(0)
	for r, counts := range y.count {
		if y.pl.shapes[r].device {
			continue
		}
		for i, pods := range counts {
			if pods > 0 && y.pl.devicesIn(y.left[i]) > 0 {
				n += pods
			}
		}
	}
	return n
}
