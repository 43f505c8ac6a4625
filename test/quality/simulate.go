// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"container/heap"
	"math/rand/v2"
	"time"
)

// simulation is one run of one policy on one workload.
//
// The queue is the same for all policies: in order of arrival, and whenever
// GPUs become free every waiting gang is tried in that order, so a gang passes
// those before it that do not fit yet. Nothing is reserved, nothing is moved, and
// nothing is evicted. That is what kube-scheduler's queue does with gangs of one
// priority.
type simulation struct {
	policy   policy
	required bool
	cluster  *cluster
	work     workload
	rng      *rand.Rand

	now     float64
	running running
	waiting [][]int // [class] gangs in order of arrival
	blocked []bool  // [class] tried since GPUs last became free: trying again is in vain

	result result
	used   float64 // GPU seconds in the window
	sample float64 // when the state is next looked at
}

// result is what runs have measured in their windows.
type result struct {
	leaves, spines tally // that a gang is in
	leastLeaves    tally // the fewest that held it in that moment
	leastSpines    tally
	bound          tally             // leaves by its size alone
	leafRing       tally             // crossings of a ring over its pods, of gangs with several
	spineRing      tally             // the same between spines
	waits          map[int][]float64 // [size] in hours
	unstarted      int               // gangs that had not started at the end; their wait until then counts
	allocated      tally             // share of all GPUs, mean over time; one per run
	largest        []int             // largest gang that one leaf takes, in GPUs, at even times
	plans          int
	planning       time.Duration
}

// tally is a sum and a number of what was added.
type tally struct {
	sum float64
	n   int
}

func (t *tally) add(v float64) { t.sum += v; t.n++ }
func (t *tally) count(v int)   { t.add(float64(v)) }
func (t *tally) merge(o tally) { t.sum += o.sum; t.n += o.n }
func (t tally) mean() float64  { return t.sum / max(1, float64(t.n)) }

// merge adds another run of the same policy.
func (r *result) merge(o result) {
	if r.waits == nil {
		r.waits = map[int][]float64{}
	}
	for _, t := range []struct{ into, from *tally }{
		{&r.leaves, &o.leaves}, {&r.spines, &o.spines}, {&r.leastLeaves, &o.leastLeaves}, {&r.leastSpines, &o.leastSpines},
		{&r.bound, &o.bound}, {&r.leafRing, &o.leafRing}, {&r.spineRing, &o.spineRing}, {&r.allocated, &o.allocated},
	} {
		t.into.merge(*t.from)
	}
	for size, waits := range o.waits {
		r.waits[size] = append(r.waits[size], waits...)
	}
	r.unstarted += o.unstarted
	r.largest = append(r.largest, o.largest...)
	r.plans += o.plans
	r.planning += o.planning
}

const samples = 200

func simulate(c *cluster, p policy, w workload, required bool, seed uint64) result {
	total := 0.0
	for _, gpus := range c.free {
		total += float64(gpus)
	}
	s := &simulation{
		policy: p, required: required, cluster: c, work: w, rng: rand.New(rand.NewPCG(seed, 2)),
		waiting: make([][]int, w.classes), blocked: make([]bool, w.classes), sample: w.from,
	}
	s.result.waits = map[int][]float64{}
	for id, g := range w.gangs {
		s.endUntil(g.arrives)
		s.advance(g.arrives)
		if s.blocked[g.class] || !s.start(id) {
			s.waiting[g.class] = append(s.waiting[g.class], id)
			s.blocked[g.class] = true
		}
	}
	s.endUntil(w.end)
	s.advance(w.end)
	for _, ids := range s.waiting {
		for _, id := range ids {
			if s.measured(id) {
				s.result.unstarted++
				s.waited(id)
			}
		}
	}
	s.result.allocated.add(s.used / total / (w.to - w.from))
	return s.result
}

// measured says whether the gang arrived in the window.
func (s *simulation) measured(id int) bool {
	at := s.work.gangs[id].arrives
	return s.work.from <= at && at < s.work.to
}

func (s *simulation) waited(id int) {
	g := s.work.gangs[id]
	s.result.waits[g.size()] = append(s.result.waits[g.size()], (s.now-g.arrives)/3600)
}

// advance moves the clock and adds up what holds until then.
func (s *simulation) advance(to float64) {
	from, until := max(s.now, s.work.from), min(to, s.work.to)
	if until > from {
		s.used += (until - from) * float64(s.cluster.used)
	}
	for ; s.sample < until; s.sample += (s.work.to - s.work.from) / samples {
		s.result.largest = append(s.result.largest, s.cluster.largestInLeaf())
	}
	s.now = to
}

// endUntil ends gangs in time order, and starts those that their GPUs let start.
func (s *simulation) endUntil(to float64) {
	for len(s.running) > 0 && s.running[0].ends <= to {
		at := s.running[0].ends
		s.advance(at)
		for len(s.running) > 0 && s.running[0].ends == at {
			r := heap.Pop(&s.running).(ending)
			s.cluster.give(r.hosts, r.gpus)
		}
		clear(s.blocked)
		s.startWaiting()
	}
}

// startWaiting tries the waiting gangs in order of arrival. When one does not
// fit, neither does another of its class.
func (s *simulation) startWaiting() {
	for {
		next := -1
		for class, ids := range s.waiting {
			if len(ids) > 0 && !s.blocked[class] && (next < 0 || ids[0] < s.waiting[next][0]) {
				next = class
			}
		}
		if next < 0 {
			return
		}
		if s.start(s.waiting[next][0]) {
			s.waiting[next] = s.waiting[next][1:]
		} else {
			s.blocked[next] = true
		}
	}
}

func (s *simulation) start(id int) bool {
	g := s.work.gangs[id]
	begin := time.Now()
	hosts := s.policy.place(s.cluster, g, s.required, s.rng)
	s.result.planning += time.Since(begin)
	s.result.plans++
	if hosts == nil {
		return false
	}
	if s.measured(id) {
		s.measure(g, hosts)
		s.waited(id)
	}
	s.cluster.take(hosts, g.gpus)
	heap.Push(&s.running, ending{ends: s.now + g.runs, id: id, hosts: hosts, gpus: g.gpus})
	return true
}

// measure looks at a placement before it is made.
func (s *simulation) measure(g gang, hosts []int) {
	c, r := s.cluster, &s.result
	r.leaves.count(distinct(hosts, c.leafOf))
	r.spines.count(distinct(hosts, c.spineOf))
	r.bound.count(c.leafBound(g))
	r.leastLeaves.count(c.fewestLeaves(g))
	r.leastSpines.count(c.fewestSpines(g))
	if g.pods > 1 {
		r.leafRing.count(crossings(hosts, c.leafOf))
		r.spineRing.count(crossings(hosts, c.spineOf))
	}
}

// ending is a gang that runs, and when it ends.
type ending struct {
	ends  float64
	id    int
	hosts []int
	gpus  int
}

type running []ending

func (r running) Len() int { return len(r) }
func (r running) Less(i, j int) bool {
	return r[i].ends < r[j].ends || r[i].ends == r[j].ends && r[i].id < r[j].id
}
func (r running) Swap(i, j int) { r[i], r[j] = r[j], r[i] }
func (r *running) Push(x any)   { *r = append(*r, x.(ending)) }
func (r *running) Pop() any {
	old := *r
	x := old[len(old)-1]
	*r = old[:len(old)-1]
	return x
}
