// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
	"github.com/tutti-project/tutti/pkg/clusterview/machines"
	"github.com/tutti-project/tutti/pkg/placement"
	"github.com/tutti-project/tutti/pkg/topology"
)

// TestPromisesHoldWhateverTheDevicePluginPicks plays a node beside the truth: pods
// come, are admitted later and get any GPUs, end, and come again under the same
// name; GPUs fall ill, and the kubelet notices or not; the agent reports now and then.
// Whenever the planner would put a pod there, every set of GPUs that are really free
// and offered must have the link.
func TestPromisesHoldWhateverTheDevicePluginPicks(t *testing.T) {
	promised, withheld := 0, 0
	for seed := range uint64(30) {
		n := newTruth(t, seed)
		for range 60 {
			n.step()
			for size := int64(2); size <= 8; size++ {
				ask := topology.Ask{Size: int(size), Link: 3}
				holds := n.free().Len() >= int(size) && n.model.Every(n.free(), ask)
				switch fits := n.takes(size); {
				case fits && !holds:
					t.Fatalf("seed %d: %d linked GPUs are promised, of %s that are free: %s", seed, size, n.free(), n)
				case fits:
					promised++
				case holds && n.free().Len()-n.waiting() >= int(size):
					withheld++
				}
			}
		}
	}
	t.Logf("promised %d times; %d times it was certain, but not known", promised, withheld)
	if promised < 500 || withheld > 2*promised {
		t.Errorf("%d promises and %d withheld: the test shows little", promised, withheld)
	}
}

// truth is one node as it is.
type truth struct {
	t     *testing.T
	rng   *rand.Rand
	now   time.Time
	node  *v1.Node
	model *topology.GPUs

	object  *v1alpha1.NodeTopology
	pods    []*v1.Pod               // that the scheduler knows
	held    map[string]topology.Set // by pod name, once it is admitted
	ill     topology.Set
	noticed topology.Set // by the kubelet
}

func newTruth(t *testing.T, seed uint64) *truth {
	rng := rand.New(rand.NewPCG(seed, 7))
	kind := []string{"dgx-1v", "a40-8", "hgx-h100", "v100-vm"}[rng.IntN(4)]
	n := &truth{t: t, rng: rng, now: noon, node: node("n", "r1"), object: readTopology(t, kind, "n"), held: map[string]topology.Set{}}
	gpus := *resource.NewQuantity(int64(len(n.object.Spec.GPUs)), resource.DecimalSI)
	n.node.Status.Capacity[gpuResource], n.node.Status.Allocatable[gpuResource] = gpus, gpus
	n.node.Status.Allocatable[v1.ResourcePods] = resource.MustParse("110")
	n.model = (&boards{}).of(n.object).model
	return n
}

func (n *truth) String() string {
	return fmt.Sprintf("held %v, ill %s, noticed %s, status %+v", n.held, n.ill, n.noticed, n.object.Status)
}

// offered are those that the kubelet may give.
func (n *truth) offered() topology.Set { return n.model.All() &^ n.noticed }

// free are those that it may give now.
func (n *truth) free() topology.Set {
	free := n.offered()
	for _, held := range n.held {
		free &^= held
	}
	return free
}

// waiting is how many GPUs pods want that the kubelet has not admitted.
func (n *truth) waiting() int {
	wanted := 0
	for _, pod := range n.pods {
		if _, admitted := n.held[pod.Name]; !admitted {
			wanted += int(RequestOf(pod)[gpuResource])
		}
	}
	return wanted
}

// takes asks a new planner.
func (n *truth) takes(size int64) bool {
	var known Topologies
	known.Set(n.object)
	b := NewBuilder(rackLevel)
	b.Follow(&known, func() time.Time { return n.now })
	planner := b.Planner(b.Build([]fwk.NodeInfo{infoOf(n.node, n.pods...)}), nil)
	p := planner.Problem()
	p.Roles = []placement.Role{{Name: "worker", Pods: 1, Minimum: 1, Request: []int64{size}, Link: 3}}
	return planner.Plan(p).Hosts != nil
}

func (n *truth) step() {
	n.now = n.now.Add(time.Duration(2+n.rng.IntN(30)) * time.Second)
	switch n.rng.IntN(9) {
	case 0, 1:
		n.bind(fmt.Sprint("p", n.rng.IntN(5)))
	case 2, 3:
		n.admit()
	case 4:
		n.end()
	case 5:
		if name := n.end(); name != "" {
			n.bind(name)
		}
	case 6:
		n.fail()
	default:
		n.report()
	}
}

// bind: the scheduler assumes a pod, often one of a name that was there before.
func (n *truth) bind(name string) {
	room := n.free().Len() - n.waiting()
	for _, pod := range n.pods {
		if pod.Name == name {
			return
		}
	}
	if room > 0 {
		n.pods = append(n.pods, assumed(name, int64(1+n.rng.IntN(min(room, 4)))))
	}
}

// admit: the kubelet gives a pod any GPUs.
func (n *truth) admit() {
	for i, pod := range n.pods {
		if _, admitted := n.held[pod.Name]; admitted {
			continue
		}
		var set topology.Set
		for want := int(RequestOf(pod)[gpuResource]); want > 0; want-- {
			left := uint32(n.free() &^ set)
			if left == 0 {
				return // one fell ill meanwhile
			}
			for range n.rng.IntN(bits.OnesCount32(left)) {
				left &= left - 1
			}
			set |= 1 << bits.TrailingZeros32(left)
		}
		n.held[pod.Name] = set
		pod = pod.DeepCopy()
		pod.Status.StartTime = &metav1.Time{Time: n.now}
		n.pods[i] = pod
		return
	}
}

// end takes a pod away and returns its name.
func (n *truth) end() string {
	if len(n.pods) == 0 {
		return ""
	}
	i := n.rng.IntN(len(n.pods))
	name := n.pods[i].Name
	delete(n.held, name)
	n.pods = append(n.pods[:i:i], n.pods[i+1:]...)
	return name
}

// fail: a GPU falls ill, and half of the time the kubelet stops to offer it.
func (n *truth) fail() {
	if n.ill.Len() > 1 {
		return
	}
	gpu := topology.Set(1) << n.rng.IntN(n.model.Count())
	n.ill |= gpu
	if n.rng.IntN(2) == 0 {
		n.noticed |= gpu
		n.node = n.node.DeepCopy()
		n.node.Status.Allocatable[gpuResource] = *resource.NewQuantity(int64(n.offered().Len()), resource.DecimalSI)
	}
}

// report: the agent writes what it sees.
func (n *truth) report() {
	given := map[string][]int{}
	for pod, set := range n.held {
		for i := range n.model.Count() {
			if set&(1<<i) != 0 {
				given["ns/"+pod] = append(given["ns/"+pod], i)
			}
		}
	}
	object := n.object.DeepCopy()
	machines.Report(object, n.now, given)
	object.Status.Free = nil
	for i := range n.model.Count() {
		if gpu := topology.Set(1) << i; n.ill&gpu != 0 {
			object.Status.Unhealthy = append(object.Status.Unhealthy, v1alpha1.UnhealthyGPU{UUID: machines.UUID("n", i), Reason: "Xid79"})
		} else if n.free()&gpu != 0 {
			object.Status.Free = append(object.Status.Free, machines.UUID("n", i))
		}
	}
	n.object = object
}
