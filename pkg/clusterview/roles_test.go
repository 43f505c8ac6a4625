// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	fwk "k8s.io/kube-scheduler/framework"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	"github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/pkg/placement"
)

func gpus(n int) v1.ResourceList {
	return v1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(int64(n), resource.DecimalSI)}
}

func replica(kind string, index int, requests v1.ResourceList) *v1.Pod {
	pod := podAsking(fmt.Sprintf("job-%s-%d", kind, index), requests)
	pod.Labels = map[string]string{kubeflowv1.ReplicaTypeLabel: kind, kubeflowv1.ReplicaIndexLabel: fmt.Sprint(index)}
	return pod
}

// drawn is "name: pods" a role.
func drawn(roles []Role) []string {
	var lines []string
	for _, role := range roles {
		var names []string
		for _, pod := range role.Pods {
			names = append(names, pod.Name)
		}
		lines = append(lines, role.Name+": "+strings.Join(names, " "))
	}
	return lines
}

func TestRolesOf(t *testing.T) {
	tolerant := podAsking("b", gpus(1))
	tolerant.Spec.Tolerations = []v1.Toleration{{Key: "gpu"}}
	cases := map[string]struct {
		pods []*v1.Pod
		want []string
	}{
		"replica types in rank order": {
			[]*v1.Pod{replica("worker", 10, gpus(1)), replica("worker", 2, gpus(1)), replica("ps", 0, nil)},
			[]string{"ps: job-ps-0", "worker: job-worker-2 job-worker-10"},
		},
		"hand-made pods of one shape in natural order": {
			[]*v1.Pod{podAsking("a-10", gpus(1)), podAsking("a-9", gpus(1))},
			[]string{"pod: a-9 a-10"},
		},
		"hand-made pods of two shapes": {
			[]*v1.Pod{podAsking("a", gpus(1)), podAsking("c", gpus(2)), podAsking("d", gpus(1))},
			[]string{"pod (like a): a d", "pod (like c): c"},
		},
		"what filters look at tells pods apart": {
			[]*v1.Pod{podAsking("a", gpus(1)), tolerant},
			[]string{"pod (like a): a", "pod (like b): b"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, drawn(RolesOf(tc.pods))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestVectors(t *testing.T) {
	roles := RolesOf([]*v1.Pod{
		replica("ps", 0, v1.ResourceList{v1.ResourceCPU: resource.MustParse("250m")}),
		replica("worker", 0, gpus(8)),
	})
	b := NewBuilder(rackLevel)
	names := b.Planner(b.Build(nil), roles).Problem().Resources
	if diff := cmp.Diff([]string{"cpu", "nvidia.com/gpu", "pods"}, names); diff != "" {
		t.Fatalf("resources: -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]int64{250, 0, 1}, roles[0].Vector(names)); diff != "" {
		t.Errorf("ps: -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]int64{0, 8, 1}, roles[1].Vector(names)); diff != "" {
		t.Errorf("worker: -want +got:\n%s", diff)
	}
}

func TestResourcesCountDevicesThatNobodyAsksFor(t *testing.T) {
	b := NewBuilder(rackLevel)
	hosts := b.Build([]fwk.NodeInfo{infoOf(node("a", "r1"))})
	got := b.Planner(hosts, RolesOf([]*v1.Pod{podAsking("p", nil)})).Problem().Resources
	if diff := cmp.Diff([]string{"nvidia.com/gpu", "pods"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestUniformOf(t *testing.T) {
	for value, want := range map[string]bool{"true": true, "false": false} {
		if got, err := UniformOf(map[string]string{tutti.UniformGPUsAnnotation: value}); got != want || err != nil {
			t.Errorf("%s: %v, %v", value, got, err)
		}
	}
	if got, err := UniformOf(nil); !got || err != nil {
		t.Errorf("without the annotation: %v, %v", got, err)
	}
	if _, err := UniformOf(map[string]string{tutti.UniformGPUsAnnotation: "yes"}); err == nil ||
		err.Error() != `annotation tutti.dev/uniform-gpus: "yes" is neither true nor false` {
		t.Errorf("error %v", err)
	}
}

func TestKindsOfHosts(t *testing.T) {
	labelled := node("b", "r1")
	labelled.Labels[productLabel] = "NVIDIA-H100"
	broken := node("c", "r1")
	broken.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("7")
	bare := node("d", "r1")
	delete(bare.Status.Capacity, "nvidia.com/gpu")
	b := NewBuilder(rackLevel)
	planner := b.Planner(b.Build([]fwk.NodeInfo{infoOf(node("a", "r1")), infoOf(labelled), infoOf(broken), infoOf(bare)}), nil)
	for host, want := range []string{"8x nvidia.com/gpu", "NVIDIA-H100 8x nvidia.com/gpu", "8x nvidia.com/gpu", ""} {
		if got := planner.KindOf(host); got != want {
			t.Errorf("host %d is of kind %q, want %q", host, got, want)
		}
	}
}

func TestConstraintOf(t *testing.T) {
	tree := NewBuilder(rackLevel).Build([]fwk.NodeInfo{infoOf(node("a", "r1"))}).Tree // cluster, rack, host
	cases := map[string]struct {
		annotations map[string]string
		want        placement.Constraint
		error       string
	}{
		"nothing asked":             {nil, placement.Constraint{}, ""},
		"by name":                   {map[string]string{tutti.RequiredTopologyAnnotation: "rack"}, placement.Constraint{Required: 1}, ""},
		"by node label":             {map[string]string{tutti.PreferredTopologyAnnotation: "kubernetes.io/hostname"}, placement.Constraint{Preferred: 2}, ""},
		"both":                      {map[string]string{tutti.RequiredTopologyAnnotation: "rack", tutti.PreferredTopologyAnnotation: "host"}, placement.Constraint{Required: 1, Preferred: 2}, ""},
		"an unknown level":          {map[string]string{tutti.RequiredTopologyAnnotation: "rak"}, placement.Constraint{}, `annotation tutti.dev/required-topology: "rak" is no level of this cluster; the levels are cluster, rack, host`},
		"a misspelt key":            {map[string]string{"tutti.dev/required-topolgy": "rack"}, placement.Constraint{}, `annotation tutti.dev/required-topolgy is unknown; those of a gang are tutti.dev/required-topology, `},
		"another's key":             {map[string]string{"example.com/required-topolgy": "rack"}, placement.Constraint{}, ""},
		"any link":                  {map[string]string{tutti.GPULinkAnnotation: "any"}, placement.Constraint{}, ""},
		"slices":                    {map[string]string{tutti.SliceSizeAnnotation: "4", tutti.SliceTopologyAnnotation: "rack"}, placement.Constraint{SliceSize: 4, SliceLevel: 1}, ""},
		"slices of no level":        {map[string]string{tutti.SliceSizeAnnotation: "4"}, placement.Constraint{}, `annotation tutti.dev/slice-size: "4" is given without tutti.dev/slice-topology, the level that a slice is to be in; the levels are cluster, rack, host`},
		"slices of no size":         {map[string]string{tutti.SliceTopologyAnnotation: "rack"}, placement.Constraint{}, `annotation tutti.dev/slice-topology: "rack" is given without tutti.dev/slice-size`},
		"slices of nothing":         {map[string]string{tutti.SliceSizeAnnotation: "0", tutti.SliceTopologyAnnotation: "rack"}, placement.Constraint{}, `annotation tutti.dev/slice-size: "0" is no number of ranks; want a whole number from 1 up`},
		"slices of words":           {map[string]string{tutti.SliceSizeAnnotation: "four", tutti.SliceTopologyAnnotation: "rack"}, placement.Constraint{}, `"four" is no number of ranks`},
		"slices in a level unknown": {map[string]string{tutti.SliceSizeAnnotation: "4", tutti.SliceTopologyAnnotation: "rak"}, placement.Constraint{}, `annotation tutti.dev/slice-topology: "rak" is no level`},
		"an empty level is unknown": {map[string]string{tutti.PreferredTopologyAnnotation: ""}, placement.Constraint{}, `annotation tutti.dev/preferred-topology: "" is no level`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got placement.Constraint
			wishes, err := WishesOf(tc.annotations, "", nil)
			if err == nil {
				got, err = ConstraintOf(tree, wishes)
			}
			if tc.error != "" {
				if err == nil || !strings.Contains(err.Error(), tc.error) {
					t.Errorf("error %v, want %q", err, tc.error)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
				t.Errorf("error %v, -want +got:\n%s", err, diff)
			}
		})
	}
}

func TestConstraintOfRefusesALevelThatNoNodeCarries(t *testing.T) {
	bare := node("a", "")
	tree := NewBuilder(rackLevel).Build([]fwk.NodeInfo{infoOf(bare)}).Tree
	_, err := ConstraintOf(tree, Wishes{tutti.RequiredTopologyAnnotation: {value: "rack"}})
	if want := `no node of this cluster carries the level "rack", so no domain of it can hold the gang; its labels are rack`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
	if _, err := ConstraintOf(tree, Wishes{tutti.PreferredTopologyAnnotation: {value: "rack"}}); err != nil {
		t.Errorf("a preference that cannot be met: %v", err)
	}
}
