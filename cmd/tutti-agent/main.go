// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Tutti-agent answers what GPUs a node has, how they are linked, and which are free: in the node's
// NodeTopology, and to people.
package main

import (
	"errors"
	"fmt"
	"os"

	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"          // the JSON log format
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // version metric
)

func main() {
	defer logs.FlushLogs()
	err := newCommand().Execute()
	if err == nil {
		return
	}
	var exit exitError
	if !errors.As(err, &exit) {
		exit = exitError{1, err.Error()}
	}
	if exit.message != "" {
		fmt.Fprintln(os.Stderr, "tutti-agent:", exit.message)
	}
	logs.FlushLogs()
	os.Exit(exit.code) //nolint:gocritic // flushed
}

// exitError ends the program with a code of its own.
type exitError struct {
	code    int
	message string
}

func (e exitError) Error() string { return e.message }
