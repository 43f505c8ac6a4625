// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"time"
)

type row struct {
	rate string
	took seconds
}

// section is what docs/benchmarks.md says of the controller.
func section(o options, rows []row, wait, loop time.Duration, writes int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `## What the controller costs

How much later than by a loop that does nothing but create them are a job's pods there? One job of %d workers (`+"`make bench-controller`"+`,
a real API server and etcd on the same machine, so that all share its processors), from the creation of the TFJob to its last pod,
median of %d turns in seconds, beside a loop that creates the same objects with the same rate and %d requests at a time. A pod
of such a job carries the addresses of all the others, twice: in TF_CONFIG and in TUTTI_WORKER_HOSTS.

| rate | one service per job | loop: the same pods | ratio | one service per replica (the default) | loop: the same services and pods | ratio |
|---|---|---|---|---|---|---|
`, o.workers, o.turns, inFlight)
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f |\n", r.rate, r.took.perJob, r.took.createOnly, r.took.perJob/r.took.createOnly,
			r.took.perReplica, r.took.createBoth, r.took.perReplica/r.took.createBoth)
	}
	fmt.Fprintf(&b, `
%d jobs of %d pods that come all at once, %d threads: 99 of 100 have their first pod within %.1f s; the loop needs %.1f s to create
all their services and pods. A look at %d finished jobs, as after a restart, writes %d times. (The first look at jobs that
training-operator has finished writes once for each.)
`, o.jobs, podsPerJob, threads, wait.Seconds(), loop.Seconds(), o.finished, writes)
	return b.String()
}
