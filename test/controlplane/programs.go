// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Namespace is where Tutti is installed.
const Namespace = "tutti-system"

// StartScheduler runs bin/tutti-scheduler under its own service account.
func (c *ControlPlane) StartScheduler(args ...string) (*Process, error) {
	kubeconfig, err := c.serviceAccount("tutti-scheduler")
	if err != nil {
		return nil, err
	}
	return c.run("tutti-scheduler", append([]string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--secure-port=0",
		"--v=2",
	}, args...)...)
}

// StartSchedulerWith runs bin/tutti-scheduler with a configuration file of this
// content, into which the kubeconfig of its service account is put.
func (c *ControlPlane) StartSchedulerWith(configuration []byte) (*Process, error) {
	kubeconfig, err := c.serviceAccount("tutti-scheduler")
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := yaml.Unmarshal(configuration, &fields); err != nil {
		return nil, fmt.Errorf("reading the scheduler's configuration: %w", err)
	}
	if err := unstructured.SetNestedField(fields, kubeconfig, "clientConnection", "kubeconfig"); err != nil {
		return nil, fmt.Errorf("setting the kubeconfig: %w", err)
	}
	if configuration, err = yaml.Marshal(fields); err != nil {
		return nil, err
	}
	path := filepath.Join(c.dir, "scheduler-config.yaml")
	if err := os.WriteFile(path, configuration, 0o600); err != nil {
		return nil, err
	}
	return c.StartScheduler("--config=" + path)
}

// StartController runs bin/tutti-controller under its own service account.
func (c *ControlPlane) StartController(args ...string) (*Process, error) {
	kubeconfig, err := c.serviceAccount("tutti-controller")
	if err != nil {
		return nil, err
	}
	return c.run("tutti-controller", append([]string{
		"--kubeconfig=" + kubeconfig,
		"--health-probe-bind-address=0",
		"--metrics-bind-address=0",
		"--v=2",
	}, args...)...)
}

// serviceAccount is a kubeconfig whose user has the name and groups that a
// pod's token would give it, so that RBAC decides as in a cluster.
func (c *ControlPlane) serviceAccount(name string) (string, error) {
	return c.Identity("system:serviceaccount:"+Namespace+":"+name,
		"system:serviceaccounts", "system:serviceaccounts:"+Namespace)
}
