// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Command bench-controller measures what the TFJob controller costs, on a
// control plane of its own.
//
// How long a job of 500 workers takes from its creation to its last pod, for
//
//	per-job      one service for the job, as large jobs are run
//	per-replica  one service for each pod, the default
//	createonly   a loop that only creates the same pods
//	createboth   a loop that only creates the services of per-replica, and then
//	             the pods
//
// all with the same requests per second and the same number in flight; and how
// many requests to change something 5,000 finished jobs cause when a controller
// looks at all of them. A figure is the median of its turns. The last lines are
// one RATIO line per goal, and the exit status is 1 when a goal is missed.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/tutti-project/tutti/test/controlplane"
)

type options struct {
	workers, finished, turns int
	qps                      float64
	dir                      string
}

const (
	overheadGoal = 1.2
	writesGoal   = 0
)

func main() {
	var o options
	flag.IntVar(&o.workers, "workers", 500, "workers of the job")
	flag.IntVar(&o.finished, "finished", 5000, "jobs that have finished")
	flag.IntVar(&o.turns, "turns", 3, "turns of every contender")
	flag.Float64Var(&o.qps, "qps", 1000, "requests per second of every contender, and half of what it may send at once")
	flag.StringVar(&o.dir, "dir", ".bench", "folder for the control plane's files; removed at the end")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	met, err := run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
	if err != nil || !met {
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (bool, error) {
	defer os.RemoveAll(o.dir)
	fmt.Println("starting a control plane")
	plane, err := controlplane.Start(ctx, controlplane.Options{Dir: o.dir})
	if err != nil {
		return false, err
	}
	defer plane.Stop()
	b, err := newBench(plane, o)
	if err != nil {
		return false, err
	}
	times := map[string][]time.Duration{}
	for turn := range o.turns {
		for _, c := range b.contenders() {
			took, err := c.run(ctx, fmt.Sprintf("%s-%d", c.name, turn))
			if err != nil {
				return false, fmt.Errorf("%s, turn %d: %w", c.name, turn+1, err)
			}
			fmt.Printf("turn %d  %-12s %6.2f s\n", turn+1, c.name, took.Seconds())
			times[c.name] = append(times[c.name], took)
		}
	}
	writes, err := b.resync(ctx, o.finished)
	if err != nil {
		return false, fmt.Errorf("%d finished jobs: %w", o.finished, err)
	}
	loop := median(times["createonly"])
	fmt.Printf("\n%d workers, median of %d turns: per-job %.2f s, createonly %.2f s; per-replica %.2f s, createboth %.2f s\n",
		o.workers, o.turns, median(times["per-job"]), loop, median(times["per-replica"]), median(times["createboth"]))
	fmt.Printf("one service per replica takes %.2f times createonly: it creates twice as many objects\n\n", median(times["per-replica"])/loop)
	overhead := median(times["per-job"]) / loop
	both := median(times["per-replica"]) / median(times["createboth"])
	fmt.Printf("RATIO controller500_vs_createonly %.2f <=%g\n", overhead, overheadGoal)
	fmt.Printf("RATIO controller500_services_vs_createboth %.2f <=%g\n", both, overheadGoal)
	fmt.Printf("RATIO resync_writes %d <=%d\n", writes, writesGoal)
	return overhead <= overheadGoal && both <= overheadGoal && writes <= writesGoal, nil
}

func median(times []time.Duration) float64 {
	times = slices.Sorted(slices.Values(times))
	return times[len(times)/2].Seconds()
}
