// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Command plannerbench runs the planner's benchmarks, keeps their output for
// benchstat, and prints one RATIO line per goal; the exit status is 1 when a goal
// is missed. A figure is the least of all rounds: what else the machine does only
// ever adds to it. A goal is judged by the median over all sizes, loads and gangs
// that it is about, and the worst of them is named. The figures go into a section of
// docs/benchmarks.md, unless other programs run as well.
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
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/tutti-project/tutti/test/bench"
)

func main() {
	var s settings
	flag.IntVar(&s.rounds, "rounds", 5, "runs of all benchmarks, one after the other")
	flag.StringVar(&s.each, "benchtime", "10ms", "time or number of turns of one benchmark in a run")
	flag.StringVar(&s.out, "out", ".bench/planner.txt", "file for the benchmarks' output")
	flag.StringVar(&s.from, "from", "", "judge this output of earlier, run and write nothing")
	flag.StringVar(&s.doc, "doc", "docs/benchmarks.md", "file whose section on the planner is rewritten")
	flag.BoolVar(&s.busy, "busy", false, "rewrite it even if other programs run as well, and say so there")
	flag.Parse()
	bench.Main(func(ctx context.Context) (bool, error) { return run(ctx, s) })
}

// settings are the command's flags.
type settings struct {
	rounds          int
	each, out, from string
	doc             string
	busy            bool
}

func run(ctx context.Context, s settings) (bool, error) {
	if s.from != "" {
		text, err := os.ReadFile(s.from)
		if err != nil {
			return false, err
		}
		f, err := parse(bufio.NewScanner(bytes.NewReader(text)))
		if err != nil {
			return false, err
		}
		verdicts, err := judge(f)
		return tell(verdicts), err
	}
	load := loadOfMachine()
	f, err := measure(ctx, s)
	if err != nil {
		return false, err
	}
	verdicts, err := judge(f)
	if err != nil {
		return false, err
	}
	met := tell(verdicts)
	if isBusy(load) && !s.busy {
		return met, fmt.Errorf("other programs were running (load %.1f), so %s is left as it was; run this again when nothing else does, or with -busy", load, s.doc)
	}
	return met, bench.RewriteSection(s.doc, "planner", "bench-planner", section(f, verdicts, load))
}

func measure(ctx context.Context, s settings) (figures, error) {
	if err := os.MkdirAll(filepath.Dir(s.out), 0o755); err != nil {
		return nil, err
	}
	var text bytes.Buffer
	for round := range s.rounds {
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, s.rounds)
		cmd := exec.CommandContext(ctx, "go", "test", "./pkg/placement", "-run", "^$", "-bench", "^Benchmark(Pass|Gang|First|Changed)$",
			"-benchmem", "-timeout", "30m", "-count", "1", "-benchtime", s.each)
		cmd.Stdout, cmd.Stderr = &text, os.Stderr
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("running the benchmarks: %w\n%s", err, text.Bytes())
		}
	}
	if err := os.WriteFile(s.out, text.Bytes(), 0o644); err != nil {
		return nil, err
	}
	return parse(bufio.NewScanner(&text))
}

// loadOfMachine is the mean number of runnable threads in the last minute; 0 where
// the system does not tell.
func loadOfMachine() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	load, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0
	}
	return load
}

// isBusy: what runs beside takes processors from the benchmarks.
func isBusy(load float64) bool { return load > float64(runtime.NumCPU())/2 }

// verdict is a goal with what was measured for it.
type verdict struct {
	goal
	median float64
	worst  ratio
	count  int
}

func judge(f figures) ([]verdict, error) {
	var verdicts []verdict
	for _, g := range goals {
		ratios := g.ratios(f)
		if len(ratios) == 0 {
			return nil, fmt.Errorf("no benchmark to judge %s by", g.Name)
		}
		slices.SortFunc(ratios, func(a, b ratio) int { return cmp.Or(cmp.Compare(a.value, b.value), cmp.Compare(a.name, b.name)) })
		v := verdict{goal: g, median: ratios[len(ratios)/2].value, worst: ratios[len(ratios)-1], count: len(ratios)}
		if g.AtLeast {
			v.worst = ratios[0]
		}
		verdicts = append(verdicts, v)
	}
	return verdicts, nil
}

// tell prints the verdicts and says whether all goals are met.
func tell(verdicts []verdict) bool {
	all := true
	fmt.Println()
	for _, v := range verdicts {
		fmt.Printf("       of %d for %s, the worst is %.2f: %s\n", v.count, v.Name, v.worst.value, v.worst.name)
		all = v.Report(v.median) && all
	}
	return all
}
