// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Command bench-pending measures what thousands of gangs that do not fit cost
// those that do: 100 gangs of 4 pods, from the first PodGroup, which completes
// its gang, to the last pod bound,
//
//	alone   on an empty queue
//	behind  after 2,000 gangs that do not fit were refused
//	woken   the same while something happens, ten times a second, after which
//	        each of the 2,000 may fit: an event that every one of them waits for
//
// Contenders take turns on one control plane, each with a scheduler of its own; a
// figure is the median of its turns. The last line is the RATIO of behind to
// alone, and the exit status is 1 when it misses the goal.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/tutti-project/tutti/test/bench"
)

type options struct {
	racks, pending, gangs, turns int
	dir, doc                     string
}

var goal = bench.Goal{Name: "pending2000_behind_vs_alone", Limit: 1.5}

const section = `### %d gangs of 4 behind %d that do not fit

From the first PodGroup, which completes its gang, to the last pod bound, median of %d turns. *Alone*: the queue is empty; *behind*: the
others have been refused before; *woken*: ten times a second something happens after which each of the others may fit.

| | seconds | as many times as alone | seconds of CPU of the scheduler |
|---|---|---|---|
%s
The goal for *behind* is %s.
`

func main() {
	var o options
	flag.IntVar(&o.racks, "racks", 100, "racks of 50 nodes")
	flag.IntVar(&o.pending, "pending", 2000, "gangs that do not fit")
	flag.IntVar(&o.gangs, "gangs", 100, "gangs of 4 that do")
	flag.IntVar(&o.turns, "turns", 3, "turns of every contender")
	flag.StringVar(&o.dir, "dir", ".bench", "folder for the control plane's files; removed at the end")
	flag.StringVar(&o.doc, "doc", "docs/benchmarks.md", "document whose section on waiting gangs is rewritten")
	flag.Parse()
	bench.Main(func(ctx context.Context) (bool, error) { return run(ctx, o) })
}

func run(ctx context.Context, o options) (bool, error) {
	defer os.RemoveAll(o.dir)
	s, err := start(ctx, o)
	if err != nil {
		return false, err
	}
	defer s.plane.Stop()
	times, err := bench.Turns(ctx, o.turns, []bench.Contender[result]{
		{Name: "alone", Run: func(ctx context.Context, label string) (result, error) { return s.turn(ctx, label, 0, false) }},
		{Name: "behind", Run: func(ctx context.Context, label string) (result, error) {
			return s.turn(ctx, label, o.pending, false)
		}},
		{Name: "woken", Run: func(ctx context.Context, label string) (result, error) {
			return s.turn(ctx, label, o.pending, true)
		}},
	})
	if err != nil {
		return false, err
	}
	medians := map[string]float64{}
	var rows strings.Builder
	for _, name := range []string{"alone", "behind", "woken"} {
		medians[name] = bench.Median(times[name], func(r result) float64 { return r.wall.Seconds() })
		cpu := bench.Median(times[name], func(r result) float64 { return r.cpu.Seconds() })
		fmt.Printf("%-9s %6.2f s, %5.2f s of CPU  %v\n", name, medians[name], cpu, times[name])
		fmt.Fprintf(&rows, "| %s | %.2f | %.2f | %.2f |\n", name, medians[name], medians[name]/medians["alone"], cpu)
	}
	met := goal.Report(medians["behind"] / medians["alone"])
	return met, bench.RewriteSection(o.doc, "pending", "bench-pending", fmt.Sprintf(section, o.gangs, o.pending, o.turns, rows.String(), goal.Bound()))
}
