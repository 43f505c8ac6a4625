// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tutti-project/tutti/pkg/topology"
)

var rackLevel = []topology.Level{{Name: "rack", NodeLabels: []string{"rack"}}}

func node(name, rack string) *v1.Node {
	has := v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("1Ki"),
		v1.ResourcePods: resource.MustParse("3"), "nvidia.com/gpu": resource.MustParse("8"),
	}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"rack": rack}},
		Status:     v1.NodeStatus{Capacity: has, Allocatable: has.DeepCopy()},
	}
}

func infoOf(node *v1.Node, pods ...*v1.Pod) fwk.NodeInfo {
	info := framework.NewNodeInfo(pods...)
	info.SetNode(node)
	return info
}

func podAsking(name string, requests v1.ResourceList) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: requests}}}},
	}
}

func TestFreeIsAllocatableLessRequested(t *testing.T) {
	running := podAsking("p", v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("1500m"), "nvidia.com/gpu": resource.MustParse("2"),
	})
	hosts := NewBuilder(rackLevel).Build([]fwk.NodeInfo{infoOf(node("b", "r1"), running), infoOf(node("a", "r2"))})
	got := freeOf(hosts, []string{"cpu", "memory", "nvidia.com/gpu", "pods", "example.com/unknown"})
	want := [][]int64{{2500, 1024, 6, 2, 0}, {4000, 1024, 8, 3, 0}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tree order is b (rack r1), a (rack r2); -want +got:\n%s", diff)
	}
}

func TestBuilderKeepsTheTreeWhileNothingThatItReadsChanges(t *testing.T) {
	b := NewBuilder(rackLevel)
	first := b.Build([]fwk.NodeInfo{infoOf(node("a", "r1")), infoOf(node("b", "r2"))})
	cases := []struct {
		name  string
		nodes []fwk.NodeInfo
		same  bool
	}{
		{"a heartbeat", []fwk.NodeInfo{infoOf(node("a", "r1")), infoOf(node("b", "r2"))}, true},
		{"a node moved to another rack", []fwk.NodeInfo{infoOf(node("a", "r1")), infoOf(node("b", "r1"))}, false},
		{"a node came", []fwk.NodeInfo{infoOf(node("a", "r1")), infoOf(node("b", "r1")), infoOf(node("c", "r1"))}, false},
		{"nodes in another order", []fwk.NodeInfo{infoOf(node("b", "r1")), infoOf(node("a", "r1")), infoOf(node("c", "r1"))}, false},
		{"all nodes gone", nil, false},
	}
	tree := first.Tree
	for _, tc := range cases {
		hosts := b.Build(tc.nodes)
		if (hosts.Tree == tree) != tc.same {
			t.Errorf("%s: same tree is %t, want %t", tc.name, hosts.Tree == tree, tc.same)
		}
		for i := range hosts.Tree.Hosts() {
			if info := hosts.Info(i); info.Node().Name != hosts.Tree.HostName(i) {
				t.Errorf("%s: host %d is %s in the tree and %s in the infos", tc.name, i, hosts.Tree.HostName(i), info.Node().Name)
			}
		}
		tree = hosts.Tree
	}
}
