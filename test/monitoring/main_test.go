// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package monitoring tests manifests/monitoring with a real Prometheus on the
// cluster of make demo: it scrapes two schedulers, two controllers and two agents
// with the token and the rights that the manifests give it, loads the rules as they
// are, and is asked everything that rules and dashboard ask.
package monitoring

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-project/tutti/test/controlplane"
)

const patience = 90 * time.Second

// stage is what the tests share.
var stage struct {
	*controlplane.ControlPlane
	began      time.Time
	prometheus string // its URL
	// pairs of programs, of which one leads
	schedulers, controllers []*controlplane.Process
	agents                  []simulated
}

func TestMain(m *testing.M) {
	os.Exit(controlplane.Main(m, "tutti-monitoring-", start))
}

func start(ctx context.Context, dir string) (*controlplane.ControlPlane, error) {
	plane, err := controlplane.Start(ctx, controlplane.Options{Dir: dir})
	if err != nil {
		return nil, err
	}
	stage.ControlPlane = plane
	var targets []target
	steps := []struct {
		what string
		do   func() error
	}{
		{"the nodes", func() error { return plane.CreateNodes(ctx, controlplane.Small) }},
		{"two schedulers", func() error {
			return twice(func(address string) error {
				host, port, err := net.SplitHostPort(address)
				if err != nil {
					return err
				}
				process, err := plane.StartScheduler("--bind-address="+host, "--secure-port="+port)
				stage.schedulers = append(stage.schedulers, process)
				targets = append(targets, target{job: "tutti-scheduler", address: address})
				return err
			})
		}},
		{"two controllers", func() error {
			return twice(func(address string) error {
				process, err := plane.StartController("--metrics-bind-address=" + address)
				stage.controllers = append(stage.controllers, process)
				targets = append(targets, target{job: "tutti-controller", address: address})
				return err
			})
		}},
		{"two agents", func() error {
			if err := plane.InstallAgent(ctx); err != nil {
				return err
			}
			return twice(func(address string) error {
				agent, err := startAgent(ctx, dir, fmt.Sprintf("n%03d", 63+len(stage.agents)), address)
				stage.agents = append(stage.agents, agent)
				targets = append(targets, target{job: "tutti-agent", address: address, node: agent.node})
				return err
			})
		}},
		{"Prometheus", func() (err error) {
			configuration, err := configure(ctx, filepath.Join(dir, "monitoring"), targets)
			if err != nil {
				return err
			}
			stage.prometheus, err = plane.StartPrometheus(ctx, configuration)
			return err
		}},
		{"the namespace", func() error { // else no pod is admitted
			return plane.Eventually(ctx, patience, func(ctx context.Context) error {
				_, err := plane.Client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
				return err
			})
		}},
	}
	stage.began = time.Now()
	for _, step := range steps {
		if err := step.do(); err != nil {
			plane.Stop()
			return nil, fmt.Errorf("starting %s: %w", step.what, err)
		}
	}
	return plane, nil
}

// twice starts a program on an address of its own, two times.
func twice(start func(address string) error) error {
	for range 2 {
		address, err := controlplane.FreeAddress()
		if err != nil {
			return err
		}
		if err := start(address); err != nil {
			return err
		}
	}
	return nil
}

func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	if err := stage.Eventually(t.Context(), patience, check); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
