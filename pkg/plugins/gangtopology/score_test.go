// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tutti-project/tutti/pkg/clusterview"
	"github.com/tutti-project/tutti/pkg/placement"
	"github.com/tutti-project/tutti/pkg/topology"
)

// inPairs are four GPUs, of which 0 and 1 and 2 and 3 are joined by NVLink.
func inPairs(t *testing.T) *topology.GPUs {
	t.Helper()
	self, pair, far := topology.Link{}, parse(t, "NV2"), parse(t, "SYS")
	gpus, err := topology.NewGPUs([][]topology.Link{
		{self, pair, far, far}, {pair, self, far, far}, {far, far, self, pair}, {far, far, pair, self},
	}, []int{0, 0, 1, 1}, topology.Rates{NVLink: 25, PCIe: 16, Socket: 20})
	if err != nil {
		t.Fatal(err)
	}
	return gpus
}

func parse(t *testing.T, cell string) topology.Link {
	t.Helper()
	link, err := topology.ParseLink(cell)
	if err != nil {
		t.Fatal(err)
	}
	return link
}

// TestSinglePodsGoWhereGangsLoseLeast ranks hosts of 4 GPUs in three racks:
//
//	r0: n0 (4 free) n1 (4 free)   r1: n2 (4 free) n3 (3 free)   r2: n4 (1 free) n5 (2 free)
func TestSinglePodsGoWhereGangsLoseLeast(t *testing.T) {
	free := []int64{4, 4, 4, 3, 1, 2}
	var infos []fwk.NodeInfo
	for i, n := range free {
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n" + string(rune('0'+i)), Labels: map[string]string{"rack": "r" + string(rune('0'+i/2))}}}
		node.Status.Allocatable = v1.ResourceList{gpu: resource.MustParse("4"), v1.ResourcePods: resource.MustParse("110")}
		node.Status.Capacity = node.Status.Allocatable
		info := framework.NewNodeInfo()
		info.SetNode(node)
		if n < 4 {
			pod := podOn(node.Name, "ours", string(rune('0'+4-n)))
			podInfo, err := framework.NewPodInfo(pod)
			if err != nil {
				t.Fatal(err)
			}
			info.AddPodInfo(podInfo)
		}
		infos = append(infos, info)
	}
	for name, tc := range map[string]struct {
		gpus  int64
		pairs map[int]topology.Set // of these hosts it is known which GPUs are free
		avoid string
		want  []string // the best first; those that have no room left out
	}{
		"the fullest host first, an empty one last, in an empty rack at the very last": {
			gpus: 1, want: []string{"n4", "n5", "n3", "n2", "n0 n1"},
		},
		"a broken pair before a whole one": {
			gpus: 1, pairs: map[int]topology.Set{5: 0b0011, 3: 0b0111, 4: 0b0100}, want: []string{"n4", "n2", "n0 n1", "n5", "n3"},
		},
		"two never from two pairs if they need not": {
			gpus: 2, pairs: map[int]topology.Set{0: 0b1111, 1: 0b1111, 2: 0b1111, 3: 0b0111, 5: 0b0011}, want: []string{"n5", "n3", "n2", "n0 n1"},
		},
		"a node in conflict last": {
			gpus: 1, avoid: "n4", want: []string{"n5", "n3", "n2", "n0 n1", "n4"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			builder := clusterview.NewBuilder([]topology.Level{{Name: "rack", NodeLabels: []string{"rack"}}})
			hosts := builder.Build(infos)
			roles := clusterview.RolesOf([]*v1.Pod{podOn("", "ours", string(rune('0'+tc.gpus)))})
			planner := builder.Planner(hosts, roles)
			resource := slices.Index(planner.Problem().Resources, gpu)
			for i, set := range tc.pairs {
				host, _ := hosts.Tree.HostIndex(infos[i].Node().Name)
				planner.SetGPUs(host, placement.HostGPUs{Model: inPairs(t), Resource: resource, Free: set, Healthy: 0b1111})
			}
			s := scorer{hosts: hosts, planner: planner, request: roles[0].Request, whole: map[int]bool{}}
			var losses []loss
			var names []string
			for i, info := range infos {
				if free[i] >= tc.gpus {
					losses = append(losses, s.lossOf(info, info.Node().Name == tc.avoid))
					names = append(names, info.Node().Name)
				}
			}
			ranked := rank(losses)
			byScore := map[int64]string{}
			var values []int64
			for i, value := range ranked {
				if byScore[value] != "" {
					byScore[value] += " "
				} else {
					values = append(values, value)
				}
				byScore[value] += names[i]
			}
			slices.SortFunc(values, func(a, b int64) int { return int(b - a) })
			var got []string
			for _, value := range values {
				got = append(got, byScore[value])
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("order %q (%v), want %q", got, losses, tc.want)
			}
			if values[0] != fwk.MaxScore {
				t.Errorf("the best has %d, want %d", values[0], fwk.MaxScore)
			}
		})
	}
}
