// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-project/tutti/test/controlplane"
)

func TestTableGroupsPodsByRackAndNode(t *testing.T) {
	machines := controlplane.Machines{Spines: 2, RacksPerSpine: 1, NodesPerRack: 2, GPUsPerNode: 8}
	var nodes []corev1.Node
	for i := range machines.Nodes() {
		nodes = append(nodes, *machines.Node(i))
	}
	var pods []corev1.Pod
	for _, p := range [][2]string{{"w-1", "n003"}, {"w-0", "n001"}, {"ps-0", "n001"}, {"waits", ""}} {
		pods = append(pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: p[0]}, Spec: corev1.PodSpec{NodeName: p[1]}})
	}
	want := `  rack r1 (spine s1)
    n001  ps-0 w-0
  rack r2 (spine s2)
    n003  w-1
`
	if diff := cmp.Diff(want, layOut(nodes, pods)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
