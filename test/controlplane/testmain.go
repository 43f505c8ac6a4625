// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"os"
)

// Main is the TestMain of a package whose tests share one control plane, and
// returns the exit status: start makes it, with all that it writes in a folder
// that is named after prefix. The folder stays when a test has failed.
func Main(tests interface{ Run() int }, prefix string, start func(ctx context.Context, dir string) (*ControlPlane, error)) int {
	dir, err := os.MkdirTemp("", prefix)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	plane, err := start(context.Background(), dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := tests.Run()
	plane.Stop()
	if code != 0 {
		fmt.Fprintf(os.Stderr, "the programs' logs are in %s/logs\n", dir)
		return code
	}
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
