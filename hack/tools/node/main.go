// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Command node is every program that a node of the test cluster runs beside
// those of the control plane, in one binary, so that the packages that they
// share are linked once. Which program runs is the name it was called by.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	kubeadm "k8s.io/kubernetes/cmd/kubeadm/app"
	kubeadmerrors "k8s.io/kubernetes/cmd/kubeadm/app/util/errors"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	switch filepath.Base(os.Args[0]) {
	case "kubelet":
		os.Exit(cli.Run(kubelet.NewKubeletCommand(context.Background())))
	case "kubeadm":
		kubeadmerrors.HandleError(kubeadm.Run()) // prints and exits
	case "kube-proxy":
		os.Exit(cli.Run(proxy.NewProxyCommand()))
	case "podnet":
		os.Exit(podnet())
	default:
		fmt.Fprintln(os.Stderr, "node: call it as kubelet, kubeadm, kube-proxy or podnet")
		os.Exit(2)
	}
}
