// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

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
