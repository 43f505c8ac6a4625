// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tutti-project/tutti/test/bench"
)

func section(outcomes []outcome, seeds int, chart string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `## Quality of placement

How near to each other do gangs run, and how long do they wait for it? A simulation (`+"`make bench-quality`"+`, some
minutes, no cluster): 847 hosts of 8 GPUs in the fabric of a production cluster (Alibaba's Lingjun, 119 leaves of 2 to
8 hosts under 3 spines), and the 15,264 jobs of the Philly trace as Gavel publishes it
([sources](../test/quality/testdata/README.md)). A gang of more than 8 GPUs is pods of 8. As they are, only 2 %% of the
jobs leave one host, so all sizes are also multiplied by 8.

- *Steady load.* The trace has most of its load in a third of its time. So jobs are drawn in a seeded order, arrivals keep
  their bursts of 64 but not the lull of months, what earlier periods would have left running runs from the start, and
  arrivals are compressed until a pool of GPUs without hosts or fabric is used to 70, 85 or 95 %% in the measured window of
  one period (half a period after the start; arrivals go on for another half). All policies run the same %d traces per row.
- *Queue*, the same for all: in order of arrival; when GPUs become free each waiting gang is tried in that order, and
  one that does not fit yet is passed. No reservation, no eviction, no migration, and run times do not depend on placement.
- *Demands.* Leaf preferred: anywhere, the nearer the better. Leaf required: a gang waits until one leaf holds it (gangs
  above the largest leaf, 64 GPUs, are left out).

`, seeds)
	for _, p := range policies {
		fmt.Fprintf(&b, "- **%s**: %s.\n", p.name, p.what)
	}
	fmt.Fprintf(&b, "\nAn emulation is the idea alone, written anew for this comparison; it says nothing about the program that had it.\n")
	fmt.Fprint(&b, `
How to read it. *Fewest then*: the fewest leaves that held the gang at the moment when it was placed; *by size*: on an empty
cluster. *Ring crossings*: how often a ring over the pods of a gang, in rank order, passes from one leaf or spine to another,
mean of gangs with several pods. *Largest gang for a leaf*: mean over time, of pods that take a whole host. *Never started*:
gangs of all runs still waiting at the end; their wait until then counts, their leaves do not, so a policy that starves large
gangs shows few leaves. With sizes x 8 every pod takes a whole host: bin packing and spreading are the same, and where a leaf is
only preferred a gang starts under any policy as soon as enough hosts are free, so all waits are equal. Over time a policy
allocates what arrives; more than the load in the window is gangs that had to wait before it began.

What the planner does for these figures, beyond the tightest domain: a gang of one pod goes to the tightest host anywhere,
not into the tightest leaf; of equal hosts it takes one in the tightest leaf; and of leaves with room it counts the large
ones as looser, for they alone will hold a large gang once they are free. How much looser was chosen on ten orders of the
trace (seeds 0 to 9, those of these tables among them). On twelve others (`+"`-first 100 -seeds 12`"+`), at 95 % and with a leaf
required, sizes x 8, the 95th percentile of the wait was 16.4 h, against 32.4 h for best-fit counts.
`)
	fmt.Fprintf(&b, "\n![Leaves per gang, waits and room for large gangs](%s)\n", filepath.Base(chart))
	for _, s := range settings {
		fmt.Fprintf(&b, "\n### %s\n\n", strings.ToUpper(s.name[:1])+s.name[1:])
		b.WriteString("| load | policy | leaves per gang | fewest then | by size | spines (fewest then) | ring crossings: leaf, spine | wait p50 / p95 / p99, h | GPUs allocated | largest gang for a leaf, GPUs | never started | µs per plan |\n" +
			"|---|---|---|---|---|---|---|---|---|---|---|---|\n")
		for _, o := range outcomes {
			if o.setting != s {
				continue
			}
			fmt.Fprintf(&b, "| %.0f %% | %s | %.3f | %.3f | %.3f | %.3f (%.3f) | %.2f, %.2f | %s | %.2f %% | %.1f | %d | %.0f |\n",
				o.utilisation*100, o.policy, o.leaves.mean(), o.leastLeaves.mean(), o.bound.mean(), o.spines.mean(), o.leastSpines.mean(),
				o.leafRing.mean(), o.spineRing.mean(), quantiles(o.allWaits()), o.allocated.mean()*100, o.meanLargest(), o.unstarted,
				float64(o.planning.Microseconds())/float64(o.plans))
		}
		b.WriteString("\nWait at 95 % by size in GPUs, p50 / p95 / p99 in hours:\n\n")
		groups := groupNames(s.times)
		fmt.Fprintf(&b, "| policy | %s |\n|---%s|\n", strings.Join(groups, " | "), strings.Repeat("|---", len(groups)))
		for _, o := range outcomes {
			if o.setting != s || o.utilisation != 0.95 {
				continue
			}
			fmt.Fprintf(&b, "| %s |", o.policy)
			for i := range groups {
				fmt.Fprintf(&b, " %s |", quantiles(o.waitsOf(i)))
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

// groupNames are the sizes by which waits are told apart, in GPUs of the trace
// times the factor; the last takes all above.
func groupNames(times int) []string {
	var names []string
	for _, size := range groups {
		names = append(names, fmt.Sprint(size*times))
	}
	return append(names, fmt.Sprintf("more than %d", groups[len(groups)-1]*times))
}

var groups = []int{1, 2, 4, 8}

func (o outcome) waitsOf(group int) []float64 {
	var waits []float64
	for size, w := range o.waits {
		size /= o.setting.times
		i := slices.IndexFunc(groups, func(s int) bool { return size <= s })
		if i < 0 {
			i = len(groups)
		}
		if i == group {
			waits = append(waits, w...)
		}
	}
	return waits
}

func (o outcome) allWaits() []float64 {
	var waits []float64
	for _, w := range o.waits {
		waits = append(waits, w...)
	}
	return waits
}

func (o outcome) meanLargest() float64 {
	var t tally
	for _, n := range o.largest {
		t.count(n)
	}
	return t.mean()
}

// takes is the share of the time at which one leaf would have taken such a gang.
func (o outcome) takes(gpus int) float64 {
	var t tally
	for _, n := range o.largest {
		if n >= gpus {
			t.count(1)
		} else {
			t.count(0)
		}
	}
	return t.mean()
}

func quantile(v []float64, q float64) float64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return v[min(len(v)-1, int(float64(len(v))*q))]
}

func quantiles(v []float64) string {
	if len(v) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f / %.1f / %.1f", quantile(v, 0.5), quantile(v, 0.95), quantile(v, 0.99))
}

// keepsUp says whether the policy ran what arrived, but for a percent. One that
// never starts its large gangs has few leaves per gang, those of the small ones,
// and is no contender.
func (o outcome) keepsUp() bool { return o.allocated.mean() > o.utilisation-0.01 }

// goal compares the planner with the best at 95 % of the others that keep up.
// With AtLeast the best of the others is the one with most.
type goal struct {
	bench.Goal
	setting int
	figure  func(outcome) float64
}

func leavesOf(o outcome) float64    { return o.leaves.mean() }
func waitOf(o outcome) float64      { return quantile(o.allWaits(), 0.95) }
func allocatedOf(o outcome) float64 { return o.allocated.mean() }

// Allocations of a window differ by a little even among policies that run all that
// arrives: those under which gangs wait longer run more of the time before it.
var goals = []goal{
	{bench.Goal{Name: "quality_leaves_tutti_vs_best_other", Limit: 1}, 1, leavesOf},
	{bench.Goal{Name: "quality_wait_p95_required_tutti_vs_best_other", Limit: 1}, 0, waitOf},
	{bench.Goal{Name: "quality_allocation_required_tutti_vs_best_other", Limit: 0.995, AtLeast: true}, 0, allocatedOf},
	{bench.Goal{Name: "quality_leaves_as_is_tutti_vs_best_other", Limit: 1}, 3, leavesOf},
	{bench.Goal{Name: "quality_wait_p95_as_is_required_tutti_vs_best_other", Limit: 1}, 2, waitOf},
	{bench.Goal{Name: "quality_allocation_as_is_required_tutti_vs_best_other", Limit: 0.995, AtLeast: true}, 2, allocatedOf},
}

func judge(outcomes []outcome) bool {
	all := true
	fmt.Println()
	for _, g := range goals {
		own, best := 0.0, math.Inf(1)
		if g.AtLeast {
			best = 0
		}
		for _, o := range outcomes {
			switch {
			case o.setting != settings[g.setting] || o.utilisation != 0.95:
			case o.policy == policies[0].name:
				own = g.figure(o)
			case !o.keepsUp():
			case g.AtLeast:
				best = max(best, g.figure(o))
			default:
				best = min(best, g.figure(o))
			}
		}
		ratio := 1.0 // two zeros are equal
		if own != best {
			ratio = own / best
		}
		all = g.Report(ratio) && all
	}
	return all
}
