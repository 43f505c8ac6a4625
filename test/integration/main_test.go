// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package integration tests Tutti's programs as users run them: processes that
// know each other only through a real API server, on simulated nodes.
//
// The tests share one control plane with 64 nodes and run one after another,
// each in its own namespace; a test that kills programs starts its own.
package integration

import (
	"context"
	"os"
	"testing"

	"github.com/tutti-project/tutti/test/controlplane"
)

// shared is the control plane of all tests that leave the programs alone.
var shared *controlplane.ControlPlane

func TestMain(m *testing.M) {
	os.Exit(controlplane.Main(m, "tutti-integration-", func(ctx context.Context, dir string) (_ *controlplane.ControlPlane, err error) {
		shared, err = startTutti(ctx, dir)
		return shared, err
	}))
}

// startTutti is a control plane with the small cluster and both programs.
func startTutti(ctx context.Context, dir string) (*controlplane.ControlPlane, error) {
	plane, err := controlplane.Start(ctx, controlplane.Options{Dir: dir})
	if err != nil {
		return nil, err
	}
	steps := []func() error{
		func() error { return plane.CreateNodes(ctx, controlplane.Small) },
		func() error { _, err := plane.StartScheduler(); return err },
		func() error { _, err := plane.StartController(); return err },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			plane.Stop()
			return nil, err
		}
	}
	return plane, nil
}
