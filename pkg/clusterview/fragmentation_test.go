// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-project/tutti/pkg/topology"
)

// TestRoomByLevel on
//
//	r1: n1 (4 of 4 free) n2 (1 of 4)   r2: n3 (4 of 4) n4 (4 of 4)   r3: n5 (4 of 4, cordoned) n6 (not ready)
func TestRoomByLevel(t *testing.T) {
	gpus := func(n int64) v1.ResourceList {
		return v1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(n, resource.DecimalSI), v1.ResourceCPU: resource.MustParse("64")}
	}
	var nodes []*v1.Node
	for i := range 6 {
		ready := v1.ConditionTrue
		if i == 5 {
			ready = v1.ConditionUnknown
		}
		nodes = append(nodes, &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i+1), Labels: map[string]string{"rack": fmt.Sprintf("r%d", i/2+1)}},
			Spec:       v1.NodeSpec{Unschedulable: i == 4},
			Status: v1.NodeStatus{
				Allocatable: gpus(4),
				Conditions:  []v1.NodeCondition{{Type: v1.NodeReady, Status: ready}},
			},
		})
	}
	pod := func(n int64) *v1.Pod {
		return &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: gpus(n)}}}}}
	}
	pods := map[string][]*v1.Pod{"n2": {pod(1), pod(2), {Spec: v1.PodSpec{Containers: []v1.Container{{}}}}}}
	got := RoomByLevel([]topology.Level{{Name: "rack", NodeLabels: []string{"rack"}}}, nodes, func(node string) []*v1.Pod { return pods[node] })
	want := []LevelRoom{
		{Level: "cluster", Resource: "nvidia.com/gpu", Largest: 13, Broken: 13},
		{Level: "rack", Resource: "nvidia.com/gpu", Largest: 8, Whole: 8, Broken: 5},
		{Level: "host", Resource: "nvidia.com/gpu", Largest: 4, Whole: 12, Broken: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
