// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tutti-project/tutti/test/bench"
)

// point is what a benchmark's name says: Gang/hosts=…/load=…/pods=…/roles=….
type point struct {
	bench              string
	hosts, pods, roles int
	load               string
}

func (p point) String() string {
	if p.bench == "Pass" {
		return fmt.Sprintf("pass over %d hosts", p.hosts)
	}
	return fmt.Sprintf("%s: %d hosts, load %s, %d pods, %d roles", strings.ToLower(p.bench), p.hosts, p.load, p.pods, p.roles)
}

// figure is what a benchmark took.
type figure struct {
	nanos  float64 // the least of all rounds
	allocs int
}

type figures map[point]figure

func parse(lines *bufio.Scanner) (figures, error) {
	f := figures{}
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 8 || !strings.HasPrefix(fields[0], "Benchmark") || fields[3] != "ns/op" {
			continue
		}
		p, err := parseName(strings.TrimPrefix(fields[0], "Benchmark"))
		if err != nil {
			return nil, err
		}
		ns, err := strconv.ParseFloat(fields[2], 64)
		if err != nil {
			return nil, fmt.Errorf("reading the time of %s: %w", fields[0], err)
		}
		allocs, err := strconv.Atoi(fields[6])
		if err != nil {
			return nil, fmt.Errorf("reading the allocations of %s: %w", fields[0], err)
		}
		if before, ok := f[p]; !ok || ns < before.nanos {
			f[p] = figure{ns, allocs}
		}
	}
	return f, lines.Err()
}

func parseName(name string) (point, error) {
	if i := strings.LastIndexByte(name, '-'); i > 0 {
		name = name[:i] // the number of processors
	}
	bench, rest, _ := strings.Cut(name, "/")
	p := point{bench: bench}
	for field := range strings.SplitSeq(rest, "/") {
		key, value, _ := strings.Cut(field, "=")
		var err error
		switch key {
		case "hosts":
			p.hosts, err = strconv.Atoi(value)
		case "pods":
			p.pods, err = strconv.Atoi(value)
		case "roles":
			p.roles, err = strconv.Atoi(value)
		case "load":
			p.load = value
		}
		if err != nil {
			return p, fmt.Errorf("reading the name %s: %w", name, err)
		}
	}
	return p, nil
}

// ratio is one quotient that a goal is about, and of what.
type ratio struct {
	name  string
	value float64
}

type goal struct {
	bench.Goal
	what   string // that is bounded
	ratios func(figures) []ratio
}

const large = 20_000

var goals = []goal{
	{bench.Goal{Name: "planner_full_vs_pass", Limit: 3}, "a plan from scratch, as many times a plain pass over all hosts; from 5,000 hosts on, gangs up to 64", func(f figures) []ratio {
		return f.quotients(func(p point) (point, bool) {
			return point{bench: "Pass", hosts: p.hosts, roles: p.roles}, p.bench == "Gang" && p.hosts >= 5_000 && p.pods <= 64 && p.load != "no"
		})
	}},
	{bench.Goal{Name: "planner_hosts_x10", Limit: 12}, "ten times the hosts", func(f figures) []ratio {
		return f.quotients(func(p point) (point, bool) {
			q := p
			q.hosts /= 10
			return q, p.bench == "Gang" && p.load != "no"
		})
	}},
	{bench.Goal{Name: "planner_gang_x10", Limit: 12}, "ten times the gang, on 20,000 hosts after ten changes", func(f figures) []ratio {
		// Gangs grow by 8: the cost of growing by 10 at the same rate.
		ratios := f.quotients(func(p point) (point, bool) {
			q := p
			q.pods /= 8
			return q, p.bench == "Changed" && p.hosts == large && p.load != "no"
		})
		for i := range ratios {
			ratios[i].value = math.Pow(ratios[i].value, 1/math.Log10(8))
		}
		return ratios
	}},
	{bench.Goal{Name: "planner_first_vs_changed", Limit: 20, AtLeast: true}, "the first plan on 20,000 hosts, as many times one after ten changes; gangs up to 64", func(f figures) []ratio {
		return f.quotients(func(p point) (point, bool) {
			q := p
			q.bench = "Changed"
			return q, p.bench == "First" && p.pods <= 64
		})
	}},
	// Half as much again is within what one run on a busy machine differs from another.
	{bench.Goal{Name: "planner_infeasible_vs_feasible", Limit: 1.5}, "a refusal, as many times a placement", func(f figures) []ratio {
		return f.quotients(func(p point) (point, bool) {
			q := p
			q.load = "80%"
			return q, p.bench != "Pass" && p.load == "no"
		})
	}},
}

// quotients divides each figure by that of the point that under names for it.
func (f figures) quotients(under func(point) (point, bool)) []ratio {
	var ratios []ratio
	for p, over := range f {
		q, wanted := under(p)
		if base, ok := f[q]; ok && wanted {
			ratios = append(ratios, ratio{fmt.Sprintf("%s / %s", p, q), over.nanos / base.nanos})
		}
	}
	return ratios
}
