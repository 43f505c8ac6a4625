// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Command bench-gang measures how long a gang waits: from the moment when it is
// complete to the last pod bound, side by side on one control plane, for
//
//	tutti     tutti-scheduler, on a PodGroup of the CRD
//	upstream  kube-scheduler with its own gang scheduling, on a native PodGroup
//	bind-N    a loop that only POSTs the bindings, N in flight: the API's limit
//
// The pods exist before; creating the PodGroup completes the gang. The API
// server has the native API switched on, which upstream needs. Contenders take
// turns, each alone on the machine but for the control plane; a figure is the
// median of its turns. The last lines are one RATIO line per goal, and the exit
// status is 1 when a goal is missed.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/tutti-project/tutti/test/bench"
)

type options struct {
	pods, racks, turns int
	dir                string
}

var (
	upstreamGoal = bench.Goal{Name: "gang1000_upstream_vs_tutti", Limit: 5, AtLeast: true}
	bindGoal     = bench.Goal{Name: "gang1000_vs_bindonly", Limit: 1.5}
)

func main() {
	var o options
	flag.IntVar(&o.pods, "pods", 1000, "pods of the gang, 8 GPUs each")
	flag.IntVar(&o.racks, "racks", 100, "racks of 50 nodes")
	flag.IntVar(&o.turns, "turns", 3, "turns of every contender")
	flag.StringVar(&o.dir, "dir", ".bench", "folder for the control plane's files; removed at the end")
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
	times, err := bench.Turns(ctx, o.turns, s.contenders())
	if err != nil {
		return false, err
	}
	return report(times), nil
}

// report prints a table and the RATIO lines, and tells whether all goals are
// met.
func report(times map[string][]bench.Took) bool {
	medians := map[string]float64{}
	fmt.Printf("\n%-9s %8s  all turns\n", "contender", "median")
	for _, name := range names {
		medians[name] = bench.Median(times[name], bench.Took.Seconds)
		fmt.Printf("%-9s %6.2f s  %v\n", name, medians[name], times[name])
	}
	fmt.Println()
	best := min(medians["bind-16"], medians["bind-32"], medians["bind-64"])
	met := upstreamGoal.Report(medians["upstream"] / medians["tutti"])
	return bindGoal.Report(medians["tutti"]/best) && met
}
