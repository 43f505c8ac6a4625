// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Command bench-agent measures what agents cost, on a control plane of its own:
// the requests per minute of many agents at rest, and while one pod comes or goes
// on each node every minute; and the processor time and memory of one agent as
// nodes run it.
//
// The many are agents in this process with a kubelet and a driver that are made
// up. The one is bin/tutti-agent. The last lines are one RATIO line per goal, and
// the exit status is 1 when a goal is missed.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/tutti-project/tutti/test/bench"
	"github.com/tutti-project/tutti/test/controlplane"
)

type options struct {
	agents      int
	rest, churn time.Duration
	dir, doc    string
}

var (
	// restGoal is of writes per agent and minute: a heartbeat every four minutes.
	restGoal = bench.Goal{Name: "agent_writes_at_rest", Limit: 0.25}
	// churnGoal is of writes per change of a pod, beside the heartbeats.
	churnGoal = bench.Goal{Name: "agent_writes_per_change", Limit: 1.1}
	// processorGoal is of one agent at rest, in thousandths of a core.
	processorGoal = bench.Goal{Name: "agent_millicores", Limit: 5}
	// memoryGoal is of one agent, in MiB.
	memoryGoal = bench.Goal{Name: "agent_mebibytes", Limit: 64}
)

const section = `| %d agents, all together | writes a minute | reads a minute | for |
|---|---|---|---|
| at rest | %.0f | %.0f | %v |
| while a pod comes or goes on every node each minute | %.0f | %.0f | %v |

Each of the %d agents has a node of 8 GPUs. Of one agent, as nodes run it:

| | measured | goal |
|---|---|---|
| writes a minute at rest | %.2f | %s |
| writes for a change of a node's pods | %.2f | %s |
| thousandths of a core at rest | %.1f | %s |
| memory, MiB | %.0f | %s |
`

func main() {
	var o options
	flag.IntVar(&o.agents, "agents", 1000, "agents, each of a node with 8 GPUs")
	flag.DurationVar(&o.rest, "rest", 6*time.Minute, "how long they are watched at rest")
	flag.DurationVar(&o.churn, "churn", 3*time.Minute, "how long they are watched while pods come and go")
	flag.StringVar(&o.dir, "dir", ".bench", "folder for the control plane's files; removed at the end")
	flag.StringVar(&o.doc, "doc", "docs/benchmarks.md", "document whose section on agents is rewritten")
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
	b := &stage{options: o, plane: plane}
	ctx, stop := context.WithCancel(ctx)
	defer b.group.Wait()
	defer stop()
	if err := b.start(ctx); err != nil {
		return false, err
	}
	one, err := b.startOne(ctx)
	if err != nil {
		return false, err
	}

	before, cost := b.requests(ctx), usageOf(one.PID())
	if err := wait(ctx, o.rest); err != nil {
		return false, err
	}
	atRest, usage := b.requests(ctx).since(before, o.rest), usageOf(one.PID())
	fmt.Printf("%d agents at rest for %v: %s\n", o.agents, o.rest, atRest)
	processor := 1000 * (usage.processor - cost.processor).Seconds() / o.rest.Seconds()
	fmt.Printf("one agent at rest: %.1f thousandths of a core, %.0f MiB resident\n", processor, usage.memory)

	before = b.requests(ctx)
	changes, err := b.change(ctx, o.churn)
	if err != nil {
		return false, err
	}
	changing := b.requests(ctx).since(before, o.churn)
	fmt.Printf("%d agents for %v, of which each sees a change a minute: %s\n\n", o.agents, o.churn, changing)

	idle := atRest.writes / float64(o.agents)
	each := (changing.writes - atRest.writes) * o.churn.Minutes() / float64(changes)
	met := true
	for _, figure := range []struct {
		goal bench.Goal
		is   float64
	}{{restGoal, idle}, {churnGoal, each}, {processorGoal, processor}, {memoryGoal, usage.memory}} {
		met = figure.goal.Report(figure.is) && met
	}
	if err := b.failed(ctx); err != nil {
		return false, err
	}
	text := fmt.Sprintf(section, o.agents, atRest.writes, atRest.reads, o.rest, changing.writes, changing.reads, o.churn,
		o.agents, idle, restGoal.Bound(), each, churnGoal.Bound(), processor, processorGoal.Bound(), usage.memory, memoryGoal.Bound())
	return met, bench.RewriteSection(o.doc, "agents", "bench-agent", text)
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
