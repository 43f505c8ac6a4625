// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tutti-project/tutti/test/bench"
)

// load is the gangs that are to be placed.
type load struct {
	gangs, pods int  // gangs, and pods of each
	rack        bool // each in one rack
	// evicting: the cluster is full of gangs of the same size and less priority.
	evicting bool
	// live: nothing exists when the scheduler starts.
	live bool
}

func (l load) total() int { return l.gangs * l.pods }

// scaled is a smaller one.
func (l load) scaled(by int) load {
	if l.gangs > 1 {
		l.gangs = max(1, l.gangs/by)
	} else {
		l.pods = max(1, l.pods/by)
	}
	return l
}

// benchCase is one thing that is measured.
type benchCase struct {
	name, what string
	load
	loops []int // bind-only loops, by their requests in flight
	goals []goal
}

// goal compares two contenders; under may be "bind", the best of the loops.
type goal struct {
	bench.Goal
	over, under string
}

var cases = []benchCase{
	{
		name: "one", what: "one gang of 1,000", load: load{gangs: 1, pods: 1000}, loops: []int{16, 32, 64},
		goals: []goal{
			{bench.Goal{Name: "gang1000_vs_bindonly", Limit: 1.3}, "tutti", "bind"},
			{bench.Goal{Name: "gang1000_upstream_vs_tutti", Limit: 8, AtLeast: true}, "upstream", "tutti"},
		},
	},
	{
		name: "racks", what: "50 gangs of 50, each in one rack", load: load{gangs: 50, pods: 50, rack: true}, loops: []int{32, 64},
		goals: []goal{{bench.Goal{Name: "racks50_upstream_vs_tutti", Limit: 20, AtLeast: true}, "upstream", "tutti"}},
	},
	{
		name: "small", what: "1,000 gangs of 4", load: load{gangs: 1000, pods: 4}, loops: []int{32, 64},
		goals: []goal{{bench.Goal{Name: "small1000_upstream_vs_tutti", Limit: 3, AtLeast: true}, "upstream", "tutti"}},
	},
	{name: "preempt", what: "100 gangs of 4 evict others from a full cluster", load: load{gangs: 100, pods: 4, evicting: true}},
	{name: "live", what: "one gang of 1,000, from the creation of its first pod", load: load{gangs: 1, pods: 1000, live: true}},
}

func names() []string {
	all := make([]string, len(cases))
	for i, c := range cases {
		all[i] = c.name
	}
	return all
}

// result is what one turn took, and what its scheduler used from its start to
// its end.
type result struct {
	took  time.Duration
	cpu   time.Duration
	peak  int64 // bytes
	bound int   // pods, if not all of them were in the time that there was
	of    int
}

// String implements fmt.Stringer.
func (r result) String() string {
	text := fmt.Sprintf("%7.2f s", r.took.Seconds())
	if r.bound < r.of {
		text = fmt.Sprintf("only %d of %d pods after %.0f s", r.bound, r.of, r.took.Seconds())
	}
	if r.cpu > 0 {
		text += fmt.Sprintf("   %6.2f s CPU, %4d MiB", r.cpu.Seconds(), r.peak>>20)
	}
	return text
}

func (r result) seconds() float64 { return r.took.Seconds() }

// section is what the document says of the case.
func (c benchCase) section(results map[string][]result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n| contender | median | turns | CPU of the scheduler | its peak memory |\n|---|---|---|---|---|\n", c.what)
	for _, name := range c.contenderNames() {
		turns := results[name]
		var times []string
		unfinished := 0
		for _, r := range turns {
			times = append(times, fmt.Sprintf("%.2f", r.seconds()))
			if r.bound < r.of {
				unfinished++
			}
		}
		median := fmt.Sprintf("%.2f s", bench.Median(turns, result.seconds))
		if unfinished > 0 {
			median = fmt.Sprintf("above %s: %d turns were ended", median, unfinished)
		}
		cpu, peak := "-", "-"
		if turns[0].cpu > 0 {
			cpu = fmt.Sprintf("%.1f s", bench.Median(turns, func(r result) float64 { return r.cpu.Seconds() }))
			peak = fmt.Sprintf("%.0f MiB", bench.Median(turns, func(r result) float64 { return float64(r.peak >> 20) }))
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", name, median, strings.Join(times, ", "), cpu, peak)
	}
	b.WriteString("\n")
	for _, g := range c.goals {
		fmt.Fprintf(&b, "- %s / %s: %.2f; the goal is %s\n", g.over, g.under, c.ratio(results, g), g.Bound())
	}
	return b.String()
}

// judge is one line per goal, and whether all are met.
func (c benchCase) judge(results map[string][]result) (lines []string, met bool) {
	met = true
	for _, g := range c.goals {
		ratio := c.ratio(results, g)
		lines = append(lines, g.Line(ratio))
		met = met && g.Met(ratio)
	}
	return lines, met
}

func (c benchCase) ratio(results map[string][]result, g goal) float64 {
	return c.median(results, g.over) / c.median(results, g.under)
}

func (c benchCase) median(results map[string][]result, name string) float64 {
	if name != "bind" {
		return bench.Median(results[name], result.seconds)
	}
	var best []float64
	for _, inFlight := range c.loops {
		best = append(best, bench.Median(results[loopName(inFlight)], result.seconds))
	}
	return slices.Min(best)
}

func loopName(inFlight int) string { return fmt.Sprintf("bind-%d", inFlight) }

func (c benchCase) contenderNames() []string {
	all := []string{"tutti", "upstream"}
	for _, inFlight := range c.loops {
		all = append(all, loopName(inFlight))
	}
	return all
}
