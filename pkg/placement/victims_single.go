// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import "slices"

// maxVictimsOfHost bounds the victims of one host of which every set is tried.
const maxVictimsOfHost = 10

// isSingle: one pod needs one host, and what victims free elsewhere is no help.
func (s *victimSearch) isSingle() bool { return len(s.p.Roles) == 1 && s.p.Roles[0].Pods == 1 }

// hostVictims is what must go for the pod to fit on one host.
type hostVictims struct {
	host  int
	set   []int
	cost  Cost
	exact bool
}

// single finds, host by host and by arithmetic alone, the cheapest victims that
// make room, and takes the cheapest host that the pod may stand on. It reports
// whether no cheaper way exists. O(hosts x victims of a host), and a plan.
func (s *victimSearch) single() bool {
	var found []hostVictims
	for host, set := range s.byHost() {
		if v, ok := s.forHost(host, set); ok {
			found = append(found, v)
		}
	}
	slices.SortFunc(found, func(a, b hostVictims) int {
		if c := a.cost.compare(b.cost); c != 0 {
			return c
		}
		return a.host - b.host
	})
	exact := true
	for _, v := range found {
		exact = exact && v.exact
		if eligible := s.p.Roles[0].Eligible; eligible != nil {
			if ok, _ := eligible(v.host); !ok {
				continue
			}
		}
		if s.become(v.set); s.enough(0) {
			s.best, s.witness = v.set, s.last
			return exact
		}
	}
	s.become(s.byCost)
	s.enough(0)
	s.offer(s.spare(slices.Clone(s.byCost)))
	return false
}

// byHost lists the victims of every host, the cheapest first.
func (s *victimSearch) byHost() map[int][]int {
	sets := map[int][]int{}
	for _, v := range s.byCost {
		for _, f := range s.victims[v].Frees {
			sets[f.Host] = append(sets[f.Host], v)
		}
	}
	return sets
}

func (s *victimSearch) forHost(host int, set []int) (hostVictims, bool) {
	if !s.fitsOn(host, set) {
		return hostVictims{}, false
	}
	best := hostVictims{host: host, exact: len(set) <= maxVictimsOfHost}
	best.set = slices.Clone(set)
	for i := range slices.Backward(set) { // from the dearest on; those before i are all still in
		if fewer := slices.Delete(slices.Clone(best.set), i, i+1); s.fitsOn(host, fewer) {
			best.set = fewer
		}
	}
	best.cost = s.costOf(best.set)
	if best.exact && len(best.set) > 0 {
		s.tryAll(&best, set, nil)
	}
	return best, true
}

// tryAll keeps or evicts the dearest of the rest, as decide does.
func (s *victimSearch) tryAll(best *hostVictims, rest, gone []int) {
	cost := s.costOf(gone)
	if len(gone) > 0 && cost.compare(best.cost) >= 0 || !s.fitsOn(best.host, append(slices.Clone(gone), rest...)) {
		return
	}
	if len(rest) == 0 {
		best.set, best.cost = slices.Clone(gone), cost
		return
	}
	last := len(rest) - 1
	s.tryAll(best, rest[:last], gone)
	s.tryAll(best, rest[:last], append(slices.Clone(gone), rest[last]))
}

// fitsOn tells whether the pod's request fits on the host without the victims.
func (s *victimSearch) fitsOn(host int, gone []int) bool {
	free := slices.Clone(s.free(host))
	s.each(gone, func(v int) {
		for _, f := range s.victims[v].Frees {
			if f.Host == host {
				for d, n := range f.Free {
					free[d] = plus(free[d], n)
				}
			}
		}
	})
	for d, n := range s.p.Roles[0].Request {
		if n > 0 && free[d] < n {
			return false
		}
	}
	return true
}

// free is what the host has left before anybody goes.
func (s *victimSearch) free(host int) []int64 {
	if change, ok := s.changed[host]; ok {
		return change.Free
	}
	return s.planner.free[host]
}
