// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Command plannerbench runs the planner's benchmarks, keeps their output for
// benchstat, and prints one RATIO line per goal; the exit status is 1 when a goal
// is missed. A figure is the median of its counts.
//
//	make bench-planner && cp .bench/planner.txt old.txt
//	make bench-planner        # with the change
//	go run golang.org/x/perf/cmd/benchstat@latest old.txt .bench/planner.txt
package main

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
)

func main() {
	count := flag.Int("count", 5, "runs of every benchmark")
	each := flag.String("benchtime", "20ms", "time or number of turns of a run")
	out := flag.String("out", ".bench/planner.txt", "file for the benchmarks' output")
	from := flag.String("from", "", "judge this output of earlier and run nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	met, err := run(ctx, *count, *each, *out, *from)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-planner:", err)
	}
	if err != nil || !met {
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, count int, each, out, from string) (bool, error) {
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
	cmd := exec.CommandContext(ctx, "go", "test", "./pkg/placement", "-run", "^$", "-bench", "^Benchmark(Pass|Gang|Changed)$",
		"-benchmem", "-timeout", "30m", "-count", strconv.Itoa(count), "-benchtime", each)
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&text, os.Stdout), os.Stderr
	if err := cmd.Run(); err != nil {
		return false, fmt.Errorf("running the benchmarks: %w", err)
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
		worst := worstOf(g.ratios(figures), g.atLeast)
		if worst.name == "" {
			return false, fmt.Errorf("no benchmark to judge %s by", g.name)
		}
		met, sign := worst.value <= g.limit, "<="
		if g.atLeast {
			met, sign = worst.value >= g.limit, ">="
		}
		all = all && met
		fmt.Printf("       worst of %s: %s\n", g.name, worst.name)
		fmt.Printf("RATIO %s %.2f %s%g\n", g.name, worst.value, sign, g.limit)
	}
	return all, nil
}
