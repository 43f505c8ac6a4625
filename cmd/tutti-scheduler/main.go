// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Command tutti-scheduler is a second kube-scheduler whose profiles place
// gangs: all replicas of a job at once, on nodes whose topology fits, or none.
// Its command line and configuration file are kube-scheduler's; without a file
// it serves one profile, tutti-scheduler.
package main

import (
	"os"
	"runtime/debug"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // the JSON log format
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // version metric
)

// gcPercent trades memory for speed: a plan and its simulation allocate much
// beside a cache of the cluster that hardly changes. GOGC overrides it, and
// GOMEMLIMIT bounds it.
const gcPercent = 400

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	os.Exit(cli.Run(newCommand()))
}
