// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// podnetPeriod is also how long a node that came back is without its routes.
const podnetPeriod = 5 * time.Second

// conflist gives every pod a pair of interfaces and an address of its node's
// range. %s is that range.
const conflist = `{"cniVersion": "0.4.0", "name": "podnet", "plugins": [
  {"type": "ptp", "ipMasq": false, "ipam": {"type": "host-local", "dataDir": "/run/podnet",
    "routes": [{"dst": "0.0.0.0/0"}], "ranges": [[{"subnet": "%s"}]]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}
]}
`

// podnet is the pod network of the test cluster: on its node ($NODE_NAME) it
// writes the CNI configuration to $CNI_DIR, and keeps a route to the pods of
// every other node. All nodes are on one link. It asks again and again instead
// of watching: a node that was cut off or restarted has lost its routes, with
// no event of the API to tell.
func podnet() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	config, err := rest.InClusterConfig()
	if err != nil {
		klog.ErrorS(err, "No API server to ask")
		return 1
	}
	config.Timeout = 2 * podnetPeriod
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		klog.ErrorS(err, "No API server to ask")
		return 1
	}
	for {
		nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err == nil {
			err = connect(nodes.Items, os.Getenv("NODE_NAME"), os.Getenv("CNI_DIR"))
		}
		if err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "Pods are not connected yet")
		}
		select {
		case <-ctx.Done():
			return 0
		case <-time.After(podnetPeriod):
		}
	}
}

func connect(nodes []corev1.Node, self, cniDir string) error {
	var errs []error
	for _, node := range nodes {
		if node.Spec.PodCIDR == "" {
			continue
		}
		if node.Name == self {
			errs = append(errs, configure(cniDir, node.Spec.PodCIDR))
		} else {
			errs = append(errs, route(node))
		}
	}
	return errors.Join(errs...)
}

// configure writes the CNI configuration under its name when it is whole:
// containerd reads the folder at any time.
func configure(dir, podCIDR string) error {
	path := filepath.Join(dir, "10-podnet.conflist")
	want := fmt.Sprintf(conflist, podCIDR)
	if have, err := os.ReadFile(path); err == nil && string(have) == want {
		return nil
	}
	if err := os.WriteFile(path+".new", []byte(want), 0o644); err != nil {
		return err
	}
	klog.InfoS("Writing the CNI configuration", "podCIDR", podCIDR)
	return os.Rename(path+".new", path)
}

func route(node corev1.Node) error {
	_, pods, err := net.ParseCIDR(node.Spec.PodCIDR)
	if err != nil {
		return fmt.Errorf("node %s: %w", node.Name, err)
	}
	addresses := node.Status.Addresses
	internal := slices.IndexFunc(addresses, func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeInternalIP })
	if internal < 0 {
		return nil // not registered in full yet
	}
	err = netlink.RouteReplace(&netlink.Route{Dst: pods, Gw: net.ParseIP(addresses[internal].Address)})
	if err != nil {
		return fmt.Errorf("routing %s by node %s at %s: %w", pods, node.Name, addresses[internal].Address, err)
	}
	return nil
}
