// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/tutti-project/tutti/test/controlplane"
)

// bringUp starts everything, saying what it does. The control plane it returns
// must be stopped even when there is an error too.
func bringUp(ctx context.Context, out *screen, dir string) (*controlplane.ControlPlane, error) {
	machines := controlplane.Small
	var plane *controlplane.ControlPlane
	steps := []struct {
		what string
		do   func() error
	}{
		{"etcd, kube-apiserver (stock) with Tutti's CRDs and RBAC, kube-controller-manager, KWOK", func() (err error) {
			plane, err = controlplane.Start(ctx, controlplane.Options{Dir: dir})
			return err
		}},
		{fmt.Sprintf("%d simulated nodes of %d GPUs: %d spines, %d racks", machines.Nodes(), machines.GPUsPerNode,
			machines.Spines, machines.Spines*machines.RacksPerSpine), func() error { return plane.CreateNodes(ctx, machines) }},
		{"tutti-scheduler and tutti-controller, each as its service account", func() error {
			if _, err := plane.StartScheduler(); err != nil {
				return err
			}
			_, err := plane.StartController()
			return err
		}},
	}
	for _, step := range steps {
		start := time.Now()
		if err := step.do(); err != nil {
			return plane, err
		}
		out.told(since(start), step.what)
	}
	return plane, nil
}
