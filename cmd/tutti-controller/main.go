// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Command tutti-controller is the TFJob controller: it turns TFJobs into pods with stable names, services by which they find each
// other, and one PodGroup per job, and reports what becomes of them.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // the JSON log format
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client and queue metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // version metric
)

func main() {
	os.Exit(cli.Run(newCommand()))
}
