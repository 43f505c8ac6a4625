// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Command quality compares where policies put gangs, by simulation: the fabric
// of a production GPU cluster (847 hosts of 8 GPUs under 119 leaves and 3
// spines) and the jobs of a public trace, see testdata/README.md. It writes
// tables and a chart into docs and prints one RATIO line per goal; the exit
// status is 1 when a goal is missed. Equal seeds give equal results, but for the
// times of plans.
//
//	data.go, workload.go, compress.go   the fabric, and the trace made steady
//	cluster.go, simulate.go             what is free, the queue, what is measured
//	policies.go                         the planner, and emulations of other ideas
//	report.go, chart.go                 tables, chart and goals
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/tutti-project/tutti/test/bench"
)

func main() {
	seeds := flag.Int("seeds", 4, "runs of every policy, each on its own order of the trace")
	first := flag.Uint64("first", 0, "the first seed")
	doc := flag.String("doc", "docs/benchmarks.md", "file whose section on quality is rewritten")
	chart := flag.String("chart", "docs/quality.svg", "file for the chart")
	flag.Parse()
	bench.Main(func(ctx context.Context) (bool, error) { return run(ctx, *first, *seeds, *doc, *chart) })
}

// setting is what a table's rows have in common.
type setting struct {
	name     string
	times    int // what the trace's sizes are multiplied by
	required bool
}

var settings = []setting{
	{"sizes x 8, leaf required", 8, true},
	{"sizes x 8, leaf preferred", 8, false},
	{"sizes as they are, leaf required", 1, true},
	{"sizes as they are, leaf preferred", 1, false},
}

var utilisations = []float64{0.70, 0.85, 0.95}

// outcome is a policy's result at one utilisation in one setting.
type outcome struct {
	setting     setting
	utilisation float64
	policy      string
	result
}

func run(ctx context.Context, first uint64, seeds int, doc, chart string) (bool, error) {
	f, err := loadFabric()
	if err != nil {
		return false, err
	}
	jobs, gaps, err := loadTrace()
	if err != nil {
		return false, err
	}
	begin := time.Now()
	var outcomes []outcome
	for i, s := range settings {
		limit := 0
		if s.required {
			limit = f.largestLeaf * gpusPerHost
		}
		for j, u := range utilisations {
			merged := make([]result, len(policies))
			for seed := first; seed < first+uint64(seeds); seed++ {
				if ctx.Err() != nil {
					return false, context.Cause(ctx)
				}
				w := compress(newShape(jobs, gaps, s.times, limit, seed), f.hosts()*gpusPerHost, u)
				for k, p := range policies {
					merged[k].merge(simulate(newCluster(f), p, w, s.required, seed))
				}
			}
			for k, p := range policies {
				outcomes = append(outcomes, outcome{setting: s, utilisation: u, policy: p.name, result: merged[k]})
			}
			fmt.Printf("%2d of %d done after %3.0f s: %s, %.0f %%\n", i*len(utilisations)+j+1, len(settings)*len(utilisations),
				time.Since(begin).Seconds(), s.name, u*100)
		}
	}
	if err := os.WriteFile(chart, []byte(drawChart(outcomes)), 0o644); err != nil {
		return false, err
	}
	if err := bench.RewriteSection(doc, "quality", "bench-quality", section(outcomes, seeds, chart)); err != nil {
		return false, err
	}
	return judge(outcomes), nil
}
