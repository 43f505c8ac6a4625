// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Command plannerbench runs the planner's benchmarks, keeps their output for
// benchstat, and prints one RATIO line per goal; the exit status is 1 when a goal
// is missed. A figure is the least of all rounds: what else the machine does only
// ever adds to it. A goal is judged by the median over all sizes, loads and gangs
// that it is about, and the worst of them is named.
//
//	make bench-planner && cp .bench/planner.txt old.txt
//	make bench-planner        # with the change
//	go run golang.org/x/perf/cmd/benchstat@latest old.txt .bench/planner.txt
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/tutti-project/tutti/test/bench"
)

func main() {
	rounds := flag.Int("rounds", 5, "runs of all benchmarks, one after the other")
	each := flag.String("benchtime", "10ms", "time or number of turns of one benchmark in a run")
	out := flag.String("out", ".bench/planner.txt", "file for the benchmarks' output")
	from := flag.String("from", "", "judge this output of earlier and run nothing")
	flag.Parse()
	bench.Main(func(ctx context.Context) (bool, error) { return run(ctx, *rounds, *each, *out, *from) })
}

func run(ctx context.Context, rounds int, each, out, from string) (bool, error) {
	if from != "" {
		text, err := os.ReadFile(from)
		if err != nil {
			return false, err
		}
		return judge(text)
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return false, err
	}
	var text bytes.Buffer
	for round := range rounds {
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, rounds)
		cmd := exec.CommandContext(ctx, "go", "test", "./pkg/placement", "-run", "^$", "-bench", "^Benchmark(Pass|Gang|First|Changed)$",
			"-benchmem", "-timeout", "30m", "-count", "1", "-benchtime", each)
		cmd.Stdout, cmd.Stderr = &text, os.Stderr
		if err := cmd.Run(); err != nil {
			return false, fmt.Errorf("running the benchmarks: %w\n%s", err, text.Bytes())
		}
	}
	if err := os.WriteFile(out, text.Bytes(), 0o644); err != nil {
		return false, err
	}
	return judge(text.Bytes())
}

func judge(text []byte) (bool, error) {
	figures, err := parse(bufio.NewScanner(bytes.NewReader(text)))
	if err != nil {
		return false, err
	}
	all := true
	fmt.Println()
	for _, g := range goals {
		ratios := g.ratios(figures)
		if len(ratios) == 0 {
			return false, fmt.Errorf("no benchmark to judge %s by", g.Name)
		}
		slices.SortFunc(ratios, func(a, b ratio) int { return cmp.Compare(a.value, b.value) })
		value, worst := ratios[len(ratios)/2].value, ratios[len(ratios)-1]
		if g.AtLeast {
			worst = ratios[0]
		}
		fmt.Printf("       of %d for %s, the worst is %.2f: %s\n", len(ratios), g.Name, worst.value, worst.name)
		all = g.Report(value) && all
	}
	return all, nil
}
