// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

// StartKubeScheduler runs the stock kube-scheduler as the administrator, to
// compare with.
func (c *ControlPlane) StartKubeScheduler(args ...string) (*Process, error) {
	return c.run("kube-scheduler", append([]string{
		"--kubeconfig=" + c.Kubeconfig,
		"--authentication-kubeconfig=" + c.Kubeconfig,
		"--authorization-kubeconfig=" + c.Kubeconfig,
		"--secure-port=0",
		"--leader-elect=false",
	}, args...)...)
}
