// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package docs runs what the documents tell people to run, on the demo's cluster or
// on one with real nodes.
package docs

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-project/tutti/test/controlplane"
)

var (
	kubeconfig = flag.String("cluster", "", "kubeconfig of a cluster with real nodes and Tutti, to run the quick start there instead")
	plane      = &controlplane.ControlPlane{} // the demo's, if there is none of these
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *kubeconfig != "" {
		os.Exit(m.Run())
	}
	os.Exit(controlplane.Main(m, "tutti-docs-", start))
}

// start is the control plane of make demo, without its jobs.
func start(ctx context.Context, dir string) (*controlplane.ControlPlane, error) {
	var err error
	if plane, err = controlplane.Start(ctx, controlplane.Options{Dir: dir}); err != nil {
		return nil, err
	}
	for _, step := range []func() error{
		func() error { return plane.CreateNodes(ctx, controlplane.Small) },
		func() error { _, err := plane.StartScheduler(); return err },
		func() error { _, err := plane.StartController(); return err },
		func() error { // else no pod is admitted
			return plane.Eventually(ctx, time.Minute, func(ctx context.Context) error {
				_, err := plane.Client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
				return err
			})
		},
	} {
		if err := step(); err != nil {
			plane.Stop()
			return nil, fmt.Errorf("starting the cluster: %w", err)
		}
	}
	return plane, nil
}
