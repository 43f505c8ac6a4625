// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math/rand/v2"
	"slices"
)

// gang is one job to place: pods of equal size.
type gang struct {
	arrives float64 // seconds since the run began; the stationary population arrives at 0
	runs    float64 // seconds from its start
	pods    int
	gpus    int // of one pod
	class   int // gangs of one class ask for the same
}

func (g gang) size() int { return g.pods * g.gpus }

// workload is the trace made stationary: see README.md for the why.
type workload struct {
	gangs   []gang  // in order of arrival
	classes int     // number of different gangs
	from    float64 // the steady window that is measured
	to      float64
	end     float64 // arrivals go on until here, so that the window's gangs compete to the end
}

// shape is the trace before it is compressed: jobs in a seeded order, and the
// share of a period at which each arrives.
type shape struct {
	jobs []job
	when []float64 // in [0, 1)
}

// blocks of this many successive gaps stay together: bursts survive the shuffle.
const burst = 64

// newShape multiplies the sizes, leaves out gangs above the limit, and shuffles
// jobs and bursts. The trace's own order has most of its load in one third of
// its time: no compression makes that a steady utilisation.
func newShape(jobs []job, gaps []float64, times, limit int, seed uint64) shape {
	rng := rand.New(rand.NewPCG(seed, 1))
	var s shape
	for _, j := range jobs {
		j.gpus *= times
		if limit == 0 || j.gpus <= limit {
			s.jobs = append(s.jobs, j)
		}
	}
	rng.Shuffle(len(s.jobs), func(i, j int) { s.jobs[i], s.jobs[j] = s.jobs[j], s.jobs[i] })
	chunks := slices.Collect(slices.Chunk(gaps, burst))
	// The trace is dense in some months and sparse in others; a burst keeps its
	// inner rhythm, and all take the same time.
	rng.Shuffle(len(chunks), func(i, j int) { chunks[i], chunks[j] = chunks[j], chunks[i] })
	for i, chunk := range chunks {
		total := 1e-9
		for _, gap := range chunk {
			total += gap
		}
		at := 0.0
		for _, gap := range chunk {
			at += gap
			s.when = append(s.when, (float64(i)+at/total*0.999)/float64(len(chunks)))
		}
	}
	s.when = s.when[:len(s.jobs)]
	last := s.when[len(s.when)-1] + 1e-9
	for i := range s.when {
		s.when[i] /= last
	}
	return s
}

// load is how many GPU seconds one period asks for.
func (s shape) load() float64 {
	sum := 0.0
	for _, j := range s.jobs {
		sum += float64(j.gpus) * j.seconds
	}
	return sum
}

// Periods of a run. The population that earlier periods would have left is there
// from the start, so a short time to settle is enough.
const (
	settle = 0.5
	window = 1.0
	after  = 0.5
)

// repeat lays periods of the given length end to end.
func (s shape) repeat(period float64) workload {
	w := workload{from: settle * period, to: (settle + window) * period, end: (settle + window + after) * period}
	classes := map[[2]int]int{}
	add := func(j job, arrives, runs float64) {
		pods, gpus := split(j.gpus)
		class, ok := classes[[2]int{pods, gpus}]
		if !ok {
			class = len(classes)
			classes[[2]int{pods, gpus}] = class
		}
		w.gangs = append(w.gangs, gang{arrives: arrives, runs: runs, pods: pods, gpus: gpus, class: class})
	}
	longest := 0.0
	for _, j := range s.jobs {
		longest = max(longest, j.seconds)
	}
	for k := -1 - int(longest/period); k < int(settle+window+after)+1; k++ {
		for i, j := range s.jobs {
			at := (float64(k) + s.when[i]) * period
			switch {
			case at >= w.end:
			case at >= 0:
				add(j, at, j.seconds)
			case at+j.seconds > 0:
				add(j, 0, at+j.seconds)
			}
		}
	}
	w.classes = len(classes)
	return w
}

// split cuts a gang into equal pods, as few as possible, of a host at most.
func split(gpus int) (pods, each int) {
	pods = (gpus + gpusPerHost - 1) / gpusPerHost
	for gpus%pods != 0 {
		pods++
	}
	return pods, gpus / pods
}
