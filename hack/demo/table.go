// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-project/tutti/test/controlplane"
)

// rackTable shows which pods are on which node, racks as headings. Racks and
// nodes without pods are left out.
func rackTable(ctx context.Context, plane *controlplane.ControlPlane) (string, error) {
	nodes, err := plane.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	pods, err := plane.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	return layOut(nodes.Items, pods.Items), nil
}

// layOut keeps the order of the nodes, which is that of the racks.
func layOut(nodes []corev1.Node, pods []corev1.Pod) string {
	byNode := map[string][]string{}
	for _, pod := range pods {
		if pod.Spec.NodeName != "" {
			byNode[pod.Spec.NodeName] = append(byNode[pod.Spec.NodeName], pod.Name)
		}
	}
	var b strings.Builder
	rack := ""
	for _, node := range nodes {
		names := byNode[node.Name]
		if len(names) == 0 {
			continue
		}
		if its := node.Labels[controlplane.RackLabel]; its != rack {
			rack = its
			fmt.Fprintf(&b, "  rack %s (spine %s)\n", rack, node.Labels[controlplane.SpineLabel])
		}
		slices.Sort(names)
		fmt.Fprintf(&b, "    %-5s %s\n", node.Name, strings.Join(names, " "))
	}
	return b.String()
}
