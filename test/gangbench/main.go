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
	"os/signal"
	"slices"
	"syscall"
	"time"
)

func main() {
	var o options
	flag.IntVar(&o.pods, "pods", 1000, "pods of the gang, 8 GPUs each")
	flag.IntVar(&o.racks, "racks", 100, "racks of 50 nodes")
	flag.IntVar(&o.turns, "turns", 3, "turns of every contender")
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

type options struct {
	pods, racks, turns int
	dir                string
}

// goal is a figure that must hold: the quotient of two contenders' times.
type goal struct {
	name        string
	over, under string // contenders; under may be "bind", the best of them
	limit       float64
	atLeast     bool
}

var goals = []goal{
	{name: "gang1000_upstream_vs_tutti", over: "upstream", under: "tutti", limit: 5, atLeast: true},
	{name: "gang1000_vs_bindonly", over: "tutti", under: "bind", limit: 1.5},
}

func (g goal) met(value float64) bool {
	if g.atLeast {
		return value >= g.limit
	}
	return value <= g.limit
}

func (g goal) String() string {
	if g.atLeast {
		return fmt.Sprintf(">=%g", g.limit)
	}
	return fmt.Sprintf("<=%g", g.limit)
}

func run(ctx context.Context, o options) (bool, error) {
	defer os.RemoveAll(o.dir)
	b, err := start(ctx, o)
	if err != nil {
		return false, err
	}
	defer b.plane.Stop()
	times := map[string][]time.Duration{}
	for turn := range o.turns {
		for _, c := range b.contenders() {
			took, err := c.run(ctx, fmt.Sprintf("%s-%d", c.name, turn))
			if err != nil {
				return false, fmt.Errorf("%s, turn %d: %w", c.name, turn+1, err)
			}
			fmt.Printf("turn %d  %-9s %6.2f s\n", turn+1, c.name, took.Seconds())
			times[c.name] = append(times[c.name], took)
		}
	}
	return report(times), nil
}

// report prints a table and the RATIO lines, and tells whether all goals are
// met.
func report(times map[string][]time.Duration) bool {
	medians := map[string]time.Duration{}
	fmt.Printf("\n%-9s %8s  all turns\n", "contender", "median")
	for _, name := range names {
		slices.Sort(times[name])
		medians[name] = times[name][len(times[name])/2]
		fmt.Printf("%-9s %6.2f s  ", name, medians[name].Seconds())
		for _, t := range times[name] {
			fmt.Printf("%.2f ", t.Seconds())
		}
		fmt.Println()
	}
	fmt.Println()
	medians["bind"] = min(medians["bind-16"], medians["bind-32"], medians["bind-64"])
	all := true
	for _, g := range goals {
		value := medians[g.over].Seconds() / medians[g.under].Seconds()
		fmt.Printf("RATIO %s %.2f %s\n", g.name, value, g)
		all = all && g.met(value)
	}
	return all
}
