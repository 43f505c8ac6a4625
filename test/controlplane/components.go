// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// stages is how KWOK plays pods; see the file.
//
//go:embed stages.yaml
var stages []byte

// controllers that a training job meets. The service-account controller makes
// the account "default" without which no pod is admitted.
var controllers = []string{
	"endpointslice-controller",
	"garbage-collector-controller",
	"namespace-controller",
	"persistentvolume-binder-controller",
	"persistentvolume-protection-controller",
	"persistentvolumeclaim-protection-controller",
	"podgroup-protection-controller", // where the feature GenericWorkload is on
	"serviceaccount-controller",
}

func (c *ControlPlane) etcdArgs(client, peer string) []string {
	return []string{
		"--data-dir=" + filepath.Join(c.dir, "etcd"),
		"--listen-client-urls=" + client,
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=default=" + peer,
		"--quota-backend-bytes=" + fmt.Sprint(4<<30), // for benchmarks with thousands of nodes
		"--log-level=warn",
		"--unsafe-no-fsync", // the data lives no longer than the process
	}
}

// apiserverArgs name addresses, keys and RBAC, as every installation must, and
// leave what the server does at its defaults, with one exception: the plugin
// TaintNodesByCondition taints new nodes as not ready until the node lifecycle
// controller, which does not run here, takes the taint away.
func (c *ControlPlane) apiserverArgs(etcd string, port int) []string {
	return []string{
		"--etcd-servers=" + etcd,
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port),
		"--endpoint-reconciler-type=none", // loopback is no valid endpoint
		"--service-cluster-ip-range=10.96.0.0/16",
		"--client-ca-file=" + c.authority.path("ca.crt"),
		"--tls-cert-file=" + c.authority.path("apiserver.crt"),
		"--tls-private-key-file=" + c.authority.path("apiserver.key"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.authority.path("service-account.key"),
		"--service-account-signing-key-file=" + c.authority.path("service-account.key"),
		"--authorization-mode=RBAC",
		"--disable-admission-plugins=TaintNodesByCondition",
	}
}

func (c *ControlPlane) controllerManagerArgs() []string {
	return []string{
		"--kubeconfig=" + c.Kubeconfig,
		"--controllers=" + strings.Join(controllers, ","),
		"--leader-elect=false",
		"--secure-port=0",
		"--kube-api-qps=1000",
		"--kube-api-burst=2000",
	}
}

func (c *ControlPlane) startKwok() error {
	path := filepath.Join(c.dir, "stages.yaml")
	if err := os.WriteFile(path, stages, 0o600); err != nil {
		return err
	}
	_, err := c.run("kwok",
		"--kubeconfig="+c.Kubeconfig,
		"--config="+path,
		"--manage-all-nodes",
		"--node-lease-duration-seconds=0", // nobody watches the heartbeats
	)
	return err
}
