// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// TestPlannerFollowsTheNodes changes nodes at random, what-if snapshots that
// are dropped again among them, and compares the planner kept with a new one.
func TestPlannerFollowsTheNodes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 31))
	kept := NewBuilder(rackLevel)
	var infos []fwk.NodeInfo
	for i := range 6 {
		infos = append(infos, infoOf(node(fmt.Sprint("n", i), fmt.Sprint("r", i%2))))
	}
	asked := []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, "nvidia.com/gpu", "example.com/fpga"}
	for step := range 200 {
		var seen []fwk.NodeInfo
		i := rng.IntN(len(infos))
		switch rng.IntN(4) {
		case 0: // a node's allocatable changes
			n := infos[i].Node().DeepCopy()
			n.Status.Allocatable["nvidia.com/gpu"] = *resource.NewQuantity(int64(rng.IntN(9)), resource.DecimalSI)
			n.Status.Allocatable["example.com/nic"] = *resource.NewQuantity(int64(rng.IntN(2)), resource.DecimalSI)
			infos = with(infos, i, infoOf(n))
			seen = infos
		case 1: // only assumed
			seen = with(infos, i, infoOf(infos[i].Node()))
		default: // a pod comes
			pod, err := framework.NewPodInfo(podAsking(fmt.Sprint("p", step), v1.ResourceList{asked[rng.IntN(3)]: resource.MustParse("1")}))
			if err != nil {
				t.Fatal(err)
			}
			next := infos[i].Snapshot()
			next.AddPodInfo(pod)
			infos = with(infos, i, next)
			seen = infos
		}
		roles := RolesOf([]*v1.Pod{podAsking("p", v1.ResourceList{asked[rng.IntN(min(len(asked), 1+step/50))]: resource.MustParse("1")})})
		hosts := kept.Build(seen)
		got := kept.Planner(hosts, roles).Problem()
		if diff := cmp.Diff(freeOf(hosts, got.Resources), got.Free); diff != "" {
			t.Fatalf("step %d: free (-new +kept):\n%s", step, diff)
		}
	}
	want := []string{"cpu", "example.com/fpga", "example.com/nic", "memory", "nvidia.com/gpu", "pods"}
	if diff := cmp.Diff(want, kept.names); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
}

func with(infos []fwk.NodeInfo, i int, info fwk.NodeInfo) []fwk.NodeInfo {
	infos = slices.Clone(infos)
	infos[i] = info
	return infos
}
