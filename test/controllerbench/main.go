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
// all with the same requests per second and the same number in flight; how long
// each of 400 jobs of 10 workers waits for its first pod when they come all at
// once, beside createboth of all of them; and how many requests to change
// something 5,000 finished jobs cause when a controller looks at all of them. A figure is the median of its turns. The last lines are
// one RATIO line per goal, and the exit status is 1 when a goal is missed.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/tutti-project/tutti/test/bench"
	"github.com/tutti-project/tutti/test/controlplane"
)

type options struct {
	workers, jobs, finished, turns int
	qps                            float64
	dir, doc                       string
}

// unbounded is a rate that no contender reaches, in requests per second.
const unbounded = 1000

var (
	overheadGoal = bench.Goal{Name: "controller500_vs_createonly", Limit: 1.2}
	servicesGoal = bench.Goal{Name: "controller500_services_vs_createboth", Limit: 1.2}
	waitGoal     = bench.Goal{Name: "jobs400_p99_first_pod_vs_createboth", Limit: 1.5}
	writesGoal   = bench.Goal{Name: "resync_writes", Limit: 0}
)

func main() {
	var o options
	flag.IntVar(&o.workers, "workers", 500, "workers of the job")
	flag.IntVar(&o.jobs, "jobs", 400, "jobs that come all at once")
	flag.IntVar(&o.finished, "finished", 5000, "jobs that have finished")
	flag.IntVar(&o.turns, "turns", 5, "turns of every contender")
	flag.Float64Var(&o.qps, "qps", 200, "requests per second of every contender, and half of what it may send at once; by default the controller's own")
	flag.StringVar(&o.dir, "dir", ".bench", "folder for the control plane's files; removed at the end")
	flag.StringVar(&o.doc, "doc", "docs/benchmarks.md", "document whose section on the controller is rewritten")
	flag.Parse()
	bench.Main(func(ctx context.Context) (bool, error) { return run(ctx, o) })
}

func run(ctx context.Context, o options) (bool, error) {
	defer os.RemoveAll(o.dir)
	fmt.Println("starting a control plane")
	plane, err := controlplane.Start(ctx, controlplane.Options{Dir: o.dir})
	if err != nil {
		return false, err
	}
	defer plane.Stop()
	s, err := newStage(plane, o)
	if err != nil {
		return false, err
	}
	delivered, err := s.compare(ctx, "delivered", o.qps)
	if err != nil {
		return false, err
	}
	free, err := s.compare(ctx, "free", unbounded)
	if err != nil {
		return false, err
	}
	wait, loop, err := s.manyJobs(ctx, o.jobs)
	if err != nil {
		return false, fmt.Errorf("%d jobs at once: %w", o.jobs, err)
	}
	writes, err := s.resync(ctx, o.finished)
	if err != nil {
		return false, fmt.Errorf("%d finished jobs: %w", o.finished, err)
	}
	fmt.Println()
	met := overheadGoal.Report(delivered.perJob / delivered.createOnly)
	met = servicesGoal.Report(delivered.perReplica/delivered.createBoth) && met
	met = waitGoal.Report(wait.Seconds()/loop.Seconds()) && met
	met = writesGoal.Report(float64(writes)) && met
	text := section(o, []row{
		{fmt.Sprintf("as delivered (%g requests a second)", o.qps), delivered}, {"no rate in the way", free},
	}, wait, loop, writes)
	return met, bench.RewriteSection(o.doc, "controller", "bench-controller", text)
}
