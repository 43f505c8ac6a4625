// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
)

var dir = flag.String("dir", ".test/e2e", "folder for what is kept of failures")

// shared is the cluster of all tests; they run one after another.
var shared *cluster

func TestMain(m *testing.M) {
	flag.Parse()
	var err error
	if shared, err = connect(context.Background()); err != nil {
		fmt.Fprintf(os.Stderr, "%v\nThe tests need the cluster of make kind-up, and run as make test-e2e.\n", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// long leaves a test to the whole suite.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("not among the short ones")
	}
}
