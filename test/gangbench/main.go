// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Command bench-gang measures how long gangs wait, side by side on one control
// plane (a real API server and etcd, 5,000 simulated nodes in 100 racks), for
//
//	tutti     tutti-scheduler, on PodGroups of the CRD
//	upstream  kube-scheduler with its own gang and topology-aware scheduling, on
//	          native PodGroups, with as many requests per second
//	bind-N    a loop that only POSTs the bindings, N in flight: the API's limit
//
// in these cases:
//
//	one      one gang of 1,000
//	racks    50 gangs of 50, each in one rack
//	small    1,000 gangs of 4
//	preempt  100 gangs of 4 that evict others from a full cluster
//	live     one gang of 1,000, from the creation of its first pod
//
// In all but the last the pods exist before, so that their creation does not hide
// what is measured. A single gang is measured from the creation of its PodGroup,
// which completes it. Of many gangs, which a scheduler finds at its start, the
// time from the first binding to the last counts: its start-up, in which both read
// the same, is left out. Preemption counts from the start.
//
// Contenders take turns, each alone on the machine but for the control plane; a
// figure is the median of its turns. The last lines are one RATIO line per goal,
// and the exit status is 1 when a goal is missed.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/tutti-project/tutti/test/bench"
)

type options struct {
	racks, turns int
	scale        int
	cases        string
	dir, doc     string
}

func main() {
	var o options
	flag.IntVar(&o.racks, "racks", 100, "racks of 50 nodes")
	flag.IntVar(&o.scale, "scale", 1, "divides the number of gangs, and the pods of a single one: for a quick look")
	flag.IntVar(&o.turns, "turns", 3, "turns of every contender")
	flag.StringVar(&o.cases, "cases", strings.Join(names(), ","), "cases to measure")
	flag.StringVar(&o.dir, "dir", ".bench", "folder for the control plane's files; removed at the end")
	flag.StringVar(&o.doc, "doc", "docs/benchmarks.md", "document whose section on each case is rewritten")
	flag.Parse()
	bench.Main(func(ctx context.Context) (bool, error) { return run(ctx, o) })
}

func run(ctx context.Context, o options) (bool, error) {
	wanted := strings.Split(o.cases, ",")
	for _, name := range wanted {
		if !slices.Contains(names(), name) {
			return false, fmt.Errorf("-cases: %q is none; there are %s", name, strings.Join(names(), ", "))
		}
	}
	defer os.RemoveAll(o.dir)
	s, err := start(ctx, o)
	if err != nil {
		return false, err
	}
	defer s.plane.Stop()
	var ratios []string
	met := true
	for _, c := range cases {
		if !slices.Contains(wanted, c.name) {
			continue
		}
		c.load = c.load.scaled(o.scale)
		fmt.Printf("\n%s: %s\n", c.name, c.what)
		results, err := bench.Turns(ctx, o.turns, s.contenders(c))
		if err != nil {
			return false, fmt.Errorf("%s: %w", c.name, err)
		}
		lines, ok := c.judge(results)
		ratios = append(ratios, lines...)
		met = met && ok
		if err := bench.RewriteSection(o.doc, "gangs "+c.name, "bench BENCH=-cases="+c.name, c.section(results)); err != nil {
			return false, err
		}
	}
	fmt.Println()
	for _, line := range ratios {
		fmt.Println(line)
	}
	return met, nil
}
