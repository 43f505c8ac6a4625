// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
	"github.com/tutti-project/tutti/pkg/clusterview/machines"
	"github.com/tutti-project/tutti/pkg/topology"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// readTopology is what an agent says at noon of a node whose GPUs are all free.
func readTopology(t testing.TB, board, node string) *v1alpha1.NodeTopology {
	t.Helper()
	object, err := machines.Read("../topology/testdata/hosts/"+board, node)
	if err != nil {
		t.Fatal(err)
	}
	machines.Report(object, noon, nil)
	return object
}

// holding is a pod with GPUs that the kubelet admitted so long before noon.
func holding(name string, gpus int64, before time.Duration) *v1.Pod {
	pod := podAsking(name, v1.ResourceList{gpuResource: *resource.NewQuantity(gpus, resource.DecimalSI)})
	pod.Status.StartTime = &metav1.Time{Time: noon.Add(-before)}
	return pod
}

// assumed is one that the kubelet has not seen yet.
func assumed(name string, gpus int64) *v1.Pod {
	pod := holding(name, gpus, 0)
	pod.Status.StartTime = nil
	return pod
}

func TestFreeGPUs(t *testing.T) {
	const all = topology.Set(0xff)
	ill := func(indexes ...int) func(*v1alpha1.NodeTopology, *v1.Node) {
		return func(object *v1alpha1.NodeTopology, _ *v1.Node) {
			for _, i := range indexes {
				object.Status.Unhealthy = append(object.Status.Unhealthy, v1alpha1.UnhealthyGPU{UUID: machines.UUID("n", i), Reason: "Xid79"})
			}
		}
	}
	offered := func(n int64) func(*v1alpha1.NodeTopology, *v1.Node) {
		return func(_ *v1alpha1.NodeTopology, node *v1.Node) {
			node.Status.Allocatable[gpuResource] = *resource.NewQuantity(n, resource.DecimalSI)
		}
	}
	nic := holding("nic", 0, 2*time.Hour)
	nic.Spec.Containers[0].Resources.Requests["nvidia.com/hostdev"] = resource.MustParse("1")
	cases := map[string]struct {
		pods     []*v1.Pod
		reported map[string][]int
		change   []func(*v1alpha1.NodeTopology, *v1.Node)
		free     topology.Set
		counted  int64
	}{
		"all are free":            {nil, nil, nil, all, 8},
		"less those of its pods":  {[]*v1.Pod{holding("a", 2, time.Hour)}, map[string][]int{"ns/a": {0, 3}}, nil, all &^ 0b1001, 6},
		"a pod just bound":        {[]*v1.Pod{assumed("a", 2)}, nil, nil, all, 6},
		"just admitted":           {[]*v1.Pod{holding("a", 2, -time.Second)}, nil, nil, all, 6},
		"bound after another one": {[]*v1.Pod{holding("a", 2, time.Hour), assumed("b", 1)}, map[string][]int{"ns/a": {0, 3}}, nil, all &^ 0b1001, 5},
		"admitted after another one, and not seen yet": {
			[]*v1.Pod{holding("a", 1, time.Minute), holding("b", 2, time.Hour)}, map[string][]int{"ns/b": {0, 3}}, nil, all &^ 0b1001, 5,
		},
		"which came free is not known":       {nil, map[string][]int{"ns/gone": {0, 3}}, nil, all, 8},
		"one gone and one come":              {[]*v1.Pod{assumed("a", 2)}, map[string][]int{"ns/gone": {0, 3}}, nil, all, 6},
		"one gone and its namesake come":     {[]*v1.Pod{assumed("a", 2)}, map[string][]int{"ns/a": {0, 3}}, nil, all, 6},
		"its namesake is running already":    {[]*v1.Pod{holding("a", 2, 0)}, map[string][]int{"ns/a": {0, 3}}, nil, all, 6},
		"pods without GPUs are none of them": {[]*v1.Pod{podAsking("a", nil)}, nil, nil, all, 8},
		"nor are those with NICs of the vendor": {
			[]*v1.Pod{holding("a", 2, time.Hour), nic},
			map[string][]int{"ns/a": {0, 3}}, nil, all &^ 0b1001, 6,
		},
		"a pod with a part of one that the agent has not seen": {
			[]*v1.Pod{podAsking("a", v1.ResourceList{"nvidia.com/gpu.shared": resource.MustParse("1")})}, map[string][]int{"ns/gone": {0, 3}}, nil, all, 8,
		},
		"ill ones are not free":                {nil, map[string][]int{}, []func(*v1alpha1.NodeTopology, *v1.Node){ill(0, 1), offered(6)}, all &^ 0b11, 6},
		"the kubelet may give out ill ones":    {nil, nil, []func(*v1alpha1.NodeTopology, *v1.Node){ill(0)}, all, 7},
		"ill ones and a pod just bound":        {[]*v1.Pod{assumed("a", 2)}, nil, []func(*v1alpha1.NodeTopology, *v1.Node){ill(0), offered(7)}, all &^ 1, 5},
		"ill ones and it is not known who has": {nil, map[string][]int{"ns/gone": {0}}, []func(*v1alpha1.NodeTopology, *v1.Node){ill(0), offered(7)}, all &^ 1, 7},
		"one that cannot even be opened":       {nil, nil, []func(*v1alpha1.NodeTopology, *v1.Node){offered(8), lost}, all, 8},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			object, n := readTopology(t, "dgx-1v", "n"), node("n", "r1")
			n.Status.Capacity[v1.ResourcePods], n.Status.Allocatable[v1.ResourcePods] = resource.MustParse("110"), resource.MustParse("110")
			machines.Report(object, noon, tc.reported)
			for _, change := range tc.change {
				change(object, n)
			}
			var known Topologies
			known.Set(object)
			b := NewBuilder(rackLevel)
			b.Follow(&known, func() time.Time { return noon })
			hosts := b.Build([]fwk.NodeInfo{infoOf(n, tc.pods...)})
			planner := b.Planner(hosts, nil)
			got := planner.GPUs(0)
			if got.Model == nil || got.Free != tc.free || planner.Free(0)[got.Resource] != tc.counted {
				t.Errorf("%s of %s are free (%s), want %d of %s", free(planner.Free(0), got.Resource), got.Free, got.Unknown, tc.counted, tc.free)
			}
		})
	}
}

// lost is a ninth GPU that the node still counts.
func lost(object *v1alpha1.NodeTopology, node *v1.Node) {
	object.Status.Unhealthy = append(object.Status.Unhealthy, v1alpha1.UnhealthyGPU{UUID: "GPU-lost", Reason: "Lost"})
	node.Status.Capacity[gpuResource] = resource.MustParse("9")
}

func free(vector []int64, resource int) any {
	if resource >= len(vector) {
		return "?"
	}
	return vector[resource]
}

func TestUnknownGPUsAreNeitherNoneNorLinked(t *testing.T) {
	cases := map[string]struct {
		change func(*v1alpha1.NodeTopology, *v1.Node)
		want   string
	}{
		"no object": {func(object *v1alpha1.NodeTopology, _ *v1.Node) { object.Name = "another" }, "it has no NodeTopology; does tutti-agent run there?"},
		"stale": {func(object *v1alpha1.NodeTopology, _ *v1.Node) {
			object.Status.HeartbeatTime = &metav1.Time{Time: noon.Add(-HeartbeatLimit)}
		}, "its NodeTopology is older than 15m0s; does tutti-agent run there?"},
		"of a time to come": {func(object *v1alpha1.NodeTopology, _ *v1.Node) {
			object.Status.HeartbeatTime = &metav1.Time{Time: noon.Add(maxAhead + time.Second)}
		}, "its NodeTopology is of a time that is more than 5m0s from now; is the node's clock right?"},
		"no status": {func(object *v1alpha1.NodeTopology, _ *v1.Node) { object.Status = v1alpha1.NodeTopologyStatus{} }, "nobody has said yet which are free"},
		"not ready": {func(object *v1alpha1.NodeTopology, _ *v1.Node) {
			object.Status.Conditions[0] = metav1.Condition{Type: "Ready", Status: "False", Reason: "KubeletUnreachable", Message: "the kubelet does not answer"}
		}, "its agent cannot see them: KubeletUnreachable: the kubelet does not answer"},
		"no condition":          {func(object *v1alpha1.NodeTopology, _ *v1.Node) { object.Status.Conditions = nil }, "its agent has not said that it can see them"},
		"of another generation": {func(object *v1alpha1.NodeTopology, _ *v1.Node) { object.Generation++ }, "its NodeTopology has just changed"},
		"shared": {func(_ *v1alpha1.NodeTopology, node *v1.Node) { node.Labels[sharingLabel] = "time-slicing" },
			"they are shared by time-slicing"},
		"another number of GPUs": {func(_ *v1alpha1.NodeTopology, node *v1.Node) {
			node.Status.Capacity[gpuResource] = resource.MustParse("32")
		},
			"the node has 32 of nvidia.com/gpu, its NodeTopology 8 whole GPUs"},
		"one is cut into instances": {func(object *v1alpha1.NodeTopology, _ *v1.Node) { object.Spec.GPUs[3].MIG = true },
			"the node has 8 of nvidia.com/gpu, its NodeTopology 7 whole GPUs"},
		"free ones that it does not have": {func(object *v1alpha1.NodeTopology, _ *v1.Node) { object.Status.Free[0] = "GPU-x" },
			"its NodeTopology calls GPU-x free, which is no whole GPU of it"},
		"one that is listed twice": {func(object *v1alpha1.NodeTopology, _ *v1.Node) { object.Spec.GPUs[1].UUID = object.Spec.GPUs[0].UUID },
			"its NodeTopology cannot be used: it lists a GPU twice"},
		"ill ones offered of which nothing is known": {func(object *v1alpha1.NodeTopology, node *v1.Node) {
			lost(object, node)
			node.Status.Allocatable[gpuResource] = resource.MustParse("9")
		}, "the kubelet offers GPUs of which its agent knows nothing but that they are ill"},
		"a link that is none": {func(object *v1alpha1.NodeTopology, _ *v1.Node) {
			object.Spec.Links[27].PCIe = "XYZ"
			object.Spec.Links[27].NVLinks = 0
		},
			`its NodeTopology cannot be used: GPUs 6 and 7: "XYZ" is no link between GPUs`},
		"no GPUs": {func(_ *v1alpha1.NodeTopology, node *v1.Node) { delete(node.Status.Capacity, gpuResource) }, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			object, n := readTopology(t, "dgx-1v", "n"), node("n", "r1")
			tc.change(object, n)
			var known Topologies
			known.Set(object)
			b := NewBuilder(rackLevel)
			b.Follow(&known, func() time.Time { return noon })
			planner := b.Planner(b.Build([]fwk.NodeInfo{infoOf(n)}), nil)
			got := planner.GPUs(0)
			if got.Model != nil || got.Unknown != tc.want {
				t.Errorf("model %v, %q; want none, since %q", got.Model, got.Unknown, tc.want)
			}
			want, _ := n.Status.Allocatable.Name(gpuResource, resource.DecimalSI).AsInt64()
			if n := planner.Free(0)[0]; n != want {
				t.Errorf("%d GPUs are free, want %d: unknown is not none", n, want)
			}
		})
	}
}

func TestNodesAlikeShareAModel(t *testing.T) {
	var known Topologies
	known.Set(readTopology(t, "dgx-1v", "a"))
	known.Set(readTopology(t, "dgx-1v", "b"))
	known.Set(readTopology(t, "hgx-h100", "c"))
	b := NewBuilder(rackLevel)
	b.Follow(&known, func() time.Time { return noon })
	planner := b.Planner(b.Build([]fwk.NodeInfo{infoOf(node("a", "r1")), infoOf(node("b", "r1")), infoOf(node("c", "r1"))}), nil)
	if x, y, z := planner.GPUs(0).Model, planner.GPUs(1).Model, planner.GPUs(2).Model; x == nil || x != y || x == z || !z.Uniform() || x.Uniform() {
		t.Errorf("models %p, %p and %p; want the first two to be one, and the third uniform", x, y, z)
	}
	if got := planner.GPUs(0).Model.RingBandwidth(0xff); got != 150000 {
		t.Errorf("a ring over a DGX-1 has %d MB/s, want 150000", got)
	}
}

func TestLinkOf(t *testing.T) {
	for value, want := range map[string]topology.Demand{"any": 0, "numa": 1, "pcie": 2, "nvlink": 3} {
		if got, err := LinkOf(map[string]string{"tutti.dev/gpu-link": value}); got != want || err != nil {
			t.Errorf("%s: %v, %v", value, got, err)
		}
	}
	if got, err := LinkOf(nil); got != 0 || err != nil {
		t.Errorf("nothing asked: %v, %v", got, err)
	}
	_, err := LinkOf(map[string]string{"tutti.dev/gpu-link": "NVLink"})
	if want := `annotation tutti.dev/gpu-link: "NVLink" is no link that can be asked for; those are any, numa, pcie, nvlink`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestDemandOfARole(t *testing.T) {
	resources := []string{"amd.com/gpu", "cpu", "nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb", "rdma/hca"}
	for asked, want := range map[string]string{
		"nvidia.com/gpu=2": "nvidia.com/gpu", "nvidia.com/gpu=1": "", "cpu=4": "", "rdma/hca=2": "", "amd.com/gpu=2": "amd.com/gpu",
		"nvidia.com/mig-1g.5gb=2": "nvidia.com/mig-1g.5gb", "nvidia.com/gpu.shared=2": "nvidia.com/gpu.shared", "amd.com/gpu=2 nvidia.com/gpu=2": "nvidia.com/gpu",
	} {
		role := Role{Request: map[string]int64{}}
		for part := range strings.FieldsSeq(asked) {
			name, n, _ := strings.Cut(part, "=")
			role.Request[name] = int64(n[0] - '0')
		}
		demand, gpu := role.Demand(3, resources)
		if got := resources[gpu]; demand == 0 && want != "" || demand > 0 && got != want {
			t.Errorf("%s: demand %v of %s, want of %q", asked, demand, got, want)
		}
	}
}
