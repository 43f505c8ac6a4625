// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import "slices"

// Parameter servers: each of P servers holds an equal part of the model and
// exchanges it with all W workers. Through the uplink of a host or domain with w
// workers and p servers goes, in each direction, in parts of the model,
//
//	p (W - w) + w (P - p)  =  w P + p (W - 2w)
//
// so what a server adds depends on the workers around it alone. The most loaded
// uplink is what training waits for; of two levels, the wider one's.

// maxServerMoves bounds servers x hosts: beyond it they stay as they were packed.
const maxServerMoves = 1 << 20

// spreadServers moves the servers of a finished placement to where the most
// loaded uplinks carry least. They stay on hosts that the gang uses, and go to
// none that has devices left for others.
func (pl *plan) spreadServers(f fill) {
	for r, role := range pl.p.Roles {
		if role.Serves && len(f[r]) > 0 && pl.shapes[r].link == 0 {
			pl.spreadRole(f, r)
		}
	}
}

func (pl *plan) spreadRole(f fill, role int) {
	s := newServerSpread(pl, f, role)
	if s.workers == 0 || s.servers*int64(len(s.hosts)) > maxServerMoves {
		return
	}
	var spread []int64
	for spread = make([]int64, len(s.hosts)); s.servers > 0; s.servers-- {
		i := s.next()
		if i < 0 {
			return // what filters refuse leaves too little room
		}
		s.put(i)
		spread[i]++
	}
	f[role] = f[role][:0]
	for i, n := range spread {
		if n > 0 {
			f[role] = append(f[role], share{s.hosts[i], n})
		}
	}
}

// serverSpread is the state of spreading one role.
type serverSpread struct {
	pl      *plan
	role    int
	hosts   []int // that may take servers, in tree order
	slots   []int64
	servers int64 // left to place
	workers int64
	around  [][]int         // [host in hosts][tier] domain
	slope   []map[int]int64 // [tier][domain] what a server there adds
	load    []map[int]int64 // [tier][domain]
}

func newServerSpread(pl *plan, f fill, role int) *serverSpread {
	s := &serverSpread{pl: pl, role: role}
	left, workers, here := make(map[int][]int64), make(map[int]int64), make(map[int]bool)
	for r, shares := range f {
		for _, sh := range shares {
			if left[sh.host] == nil {
				left[sh.host] = slices.Clone(pl.freeOn(sh.host))
				s.hosts = append(s.hosts, sh.host)
			}
			switch {
			case r == role: // to be placed anew
				here[sh.host] = true
				s.servers += sh.pods
				continue
			case !pl.p.Roles[r].Serves:
				workers[sh.host] += sh.pods
				s.workers += sh.pods
			}
			for d, n := range pl.p.Roles[r].Request {
				left[sh.host][d] -= max(n, 0) * sh.pods
			}
		}
	}
	s.hosts = slices.DeleteFunc(s.hosts, func(h int) bool { return !here[h] && pl.devicesIn(left[h]) > 0 })
	slices.Sort(s.hosts)
	for _, h := range s.hosts {
		n := int64(0)
		if pl.slotsOf(role, h) > 0 {
			n = pl.slotsIn(left[h], role)
		}
		s.slots = append(s.slots, n)
	}
	s.weigh(workers)
	return s
}

// weigh counts the workers of every domain around the hosts.
func (s *serverSpread) weigh(workers map[int]int64) {
	tiers := s.pl.tiers
	count := make([]map[int]int64, len(tiers))
	for t := range tiers {
		count[t] = make(map[int]int64)
		for h, n := range workers {
			count[t][s.pl.domainAt(t, h)] += n
		}
	}
	s.slope, s.load = make([]map[int]int64, len(tiers)), make([]map[int]int64, len(tiers))
	for t := range tiers {
		s.slope[t], s.load[t] = make(map[int]int64), make(map[int]int64)
	}
	for _, h := range s.hosts {
		around := make([]int, len(tiers))
		for t := range tiers {
			k := s.pl.domainAt(t, h)
			around[t] = k
			s.slope[t][k] = s.workers - 2*count[t][k]
			s.load[t][k] = count[t][k] * s.servers
		}
		s.around = append(s.around, around)
	}
}

// next is the host whose uplinks, from the widest level on, would carry least
// with one more server; -1 if none has room.
func (s *serverSpread) next() int {
	best := -1
	for i := range s.hosts {
		if s.slots[i] > 0 && (best < 0 || s.lessLoaded(i, best)) {
			if s.pl.mayUse(s.role, s.hosts[i]) {
				best = i
			} else {
				s.slots[i] = 0
			}
		}
	}
	return best
}

func (s *serverSpread) lessLoaded(a, b int) bool {
	for t := range s.pl.tiers {
		ka, kb := s.around[a][t], s.around[b][t]
		if ka == kb {
			continue
		}
		// With most of the workers around it, a server lightens the uplink.
		if x, y := s.slope[t][ka] <= 0, s.slope[t][kb] <= 0; x != y {
			return x
		}
		if x, y := s.load[t][ka]+s.slope[t][ka], s.load[t][kb]+s.slope[t][kb]; x != y {
			return x < y
		}
	}
	return false
}

func (s *serverSpread) put(i int) {
	s.slots[i]--
	for t, k := range s.around[i] {
		s.load[t][k] += s.slope[t][k]
	}
}
