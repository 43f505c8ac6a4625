// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// section is what docs/benchmarks.md says of the planner.
func section(f figures, verdicts []verdict, load float64) string {
	var b strings.Builder
	fmt.Fprintf(&b, `## The planner alone

How long does it take to decide where a gang goes? `+"`make bench-planner`"+`, on %d processors, no cluster: hosts of 8 GPUs, 50 in a
rack and 10 racks under a spine, of which so many percent are taken, evenly mixed. A gang is workers that take a whole host; with
two roles every eighth pod is a parameter server. *From scratch* is `+"`placement.Plan`"+`, which looks at all hosts; *after ten changes*
is a planner that is kept, as the scheduler's is, from SetFree of ten hosts to the decision. *No* is a gang that would fit, but
in no domain of the level that it requires. Times are the least of several runs, in microseconds.
`, runtime.NumCPU())
	if isBusy(load) {
		fmt.Fprintf(&b, "\n**Other programs ran as well (load %.1f): the times are too long and the ratios uncertain.**\n", load)
	}
	fmt.Fprintf(&b, "\n| goal | limit | median | worst |\n|---|---|---|---|\n")
	for _, v := range verdicts {
		fmt.Fprintf(&b, "| %s | %s | %.2f | %.2f: %s |\n", v.what, v.Bound(), v.median, v.worst.value, v.worst.name)
	}
	byHosts(&b, f, "Gang", "From scratch, 80 % of the hosts taken")
	byHosts(&b, f, "Changed", "After ten changes, 80 % of the hosts taken")
	byLoad(&b, f)
	return b.String()
}

// byHosts is a table of gangs and sizes of the cluster.
func byHosts(b *strings.Builder, f figures, bench, title string) {
	hosts := distinct(f, func(p point) int { return p.hosts })
	fmt.Fprintf(b, "\n### %s\n\n| gang |", title)
	for _, h := range hosts {
		fmt.Fprintf(b, " %s hosts |", thousands(h))
	}
	fmt.Fprintf(b, "\n|---|%s\n", strings.Repeat("---|", len(hosts)))
	row := func(name string, at func(hosts int) point) {
		fmt.Fprintf(b, "| %s |", name)
		for _, h := range hosts {
			fmt.Fprintf(b, " %s |", f.micros(at(h)))
		}
		fmt.Fprintln(b)
	}
	eachGang(f, func(pods, roles int) {
		row(gangName(pods, roles), func(h int) point { return point{bench: bench, hosts: h, load: "80%", pods: pods, roles: roles} })
	})
	if bench == "Gang" {
		for _, roles := range []int{1, 2} {
			row(fmt.Sprintf("a plain pass over all hosts, %s", plural(roles, "role")), func(h int) point { return point{bench: "Pass", hosts: h, roles: roles} })
		}
	}
}

// byLoad is a table of gangs and loads on 20,000 hosts, with allocations.
func byLoad(b *strings.Builder, f figures) {
	loads := []string{"0%", "80%", "95%", "no"}
	fmt.Fprintf(b, "\n### %s hosts by load\n\nBelow: from scratch, and after ten changes with allocations in parentheses.\n\n| gang |", thousands(large))
	for _, bench := range []string{"scratch", "changed"} {
		for _, load := range loads {
			fmt.Fprintf(b, " %s, %s |", bench, strings.Replace(load, "%", " %", 1))
		}
	}
	fmt.Fprintf(b, "\n|---|%s\n", strings.Repeat("---|", 2*len(loads)))
	eachGang(f, func(pods, roles int) {
		fmt.Fprintf(b, "| %s |", gangName(pods, roles))
		for _, bench := range []string{"Gang", "Changed"} {
			for _, load := range loads {
				p := point{bench: bench, hosts: large, load: load, pods: pods, roles: roles}
				fmt.Fprintf(b, " %s", f.micros(p))
				if fig, ok := f[p]; ok && bench == "Changed" {
					fmt.Fprintf(b, " (%s)", thousands(fig.allocs))
				}
				fmt.Fprint(b, " |")
			}
		}
		fmt.Fprintln(b)
	})
}

func eachGang(f figures, do func(pods, roles int)) {
	for _, pods := range distinct(f, func(p point) int { return p.pods }) {
		for _, roles := range []int{1, 2} {
			if pods > 0 {
				do(pods, roles)
			}
		}
	}
}

func distinct(f figures, of func(point) int) []int {
	var values []int
	for p := range f {
		values = append(values, of(p))
	}
	slices.Sort(values)
	return slices.Compact(values)
}

func (f figures) micros(p point) string {
	fig, ok := f[p]
	if !ok {
		return "-" // no room for it
	}
	return thousands(int(fig.nanos/1000 + 0.5))
}

func gangName(pods, roles int) string {
	return fmt.Sprintf("%s pods, %s", thousands(pods), plural(roles, "role"))
}

func plural(n int, word string) string {
	if n != 1 {
		word += "s"
	}
	return fmt.Sprintf("%d %s", n, word)
}

// thousands: 100,000.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
