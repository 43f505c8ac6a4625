// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
	"github.com/tutti-project/tutti/pkg/clusterview/machines"
	"github.com/tutti-project/tutti/pkg/placement"
)

// TestPlannerFollowsTheTopologies lets pods come and go, agents report, fall silent
// and return, and time pass, and compares what a kept planner knows of the GPUs with
// what a new one does.
func TestPlannerFollowsTheTopologies(t *testing.T) {
	h := newHistory(t)
	known, unknown := 0, 0
	for step := range 2000 {
		h.step(step)
		got, want := h.kept.Planner(h.kept.Build(h.infos), nil), h.fresh()
		for host := range h.infos {
			if x, y := inside(got, host), inside(want, host); x != y {
				t.Fatalf("step %d, host %d: kept %s, new %s", step, host, x, y)
			}
			if got.GPUs(host).Model == nil {
				unknown++
			} else {
				known++
			}
		}
	}
	if len(h.kept.gpus.expiries) > 2000 || known < 1000 || unknown < 1000 {
		t.Errorf("%d expiries are kept, %d times a host was known and %d times not: the test shows little", len(h.kept.gpus.expiries), known, unknown)
	}
}

// history is a small cluster to which things happen.
type history struct {
	t       *testing.T
	rng     *rand.Rand
	now     time.Time
	latest  map[string]*v1alpha1.NodeTopology
	infos   []fwk.NodeInfo
	holders []map[string][]int // [node] what pods hold

	kept *Builder
	fed  Topologies
}

func newHistory(t *testing.T) *history {
	h := &history{t: t, rng: rand.New(rand.NewPCG(2, 32)), now: noon, latest: map[string]*v1alpha1.NodeTopology{}, kept: NewBuilder(rackLevel)}
	h.kept.Follow(&h.fed, h.clock)
	for i := range 6 {
		n := node(fmt.Sprint("n", i), fmt.Sprint("r", i%2))
		n.Status.Allocatable[v1.ResourcePods] = resource.MustParse("110")
		h.infos = append(h.infos, infoOf(n))
		h.holders = append(h.holders, map[string][]int{})
	}
	return h
}

func (h *history) clock() time.Time { return h.now }

// fresh is a planner that has seen nothing before.
func (h *history) fresh() *placement.Planner {
	b := NewBuilder(rackLevel)
	var all Topologies
	for _, object := range h.latest {
		all.Set(object)
	}
	b.Follow(&all, h.clock)
	return b.Planner(b.Build(h.infos), nil)
}

func (h *history) step(step int) {
	events := []func(node, step int){
		h.report, h.beat, h.forget, h.wait, h.relabel, h.removePod, h.addPod, h.addPod,
	}
	events[h.rng.IntN(len(events))](h.rng.IntN(len(h.infos)), step)
}

// report: an agent says what is.
func (h *history) report(i, step int) {
	kinds := []string{"dgx-1v", "hgx-h100", "a40-8", "l40s-8"}
	object := readTopology(h.t, kinds[h.rng.IntN(len(kinds))], h.infos[i].Node().Name)
	object.Generation = int64(step)
	machines.Report(object, h.now, h.holders[i])
	h.set(object)
}

// beat: it says so again, some by a clock that is ahead.
func (h *history) beat(i, _ int) {
	if object := h.latest[h.infos[i].Node().Name]; object != nil {
		object = object.DeepCopy()
		object.Status.HeartbeatTime = &metav1.Time{Time: h.now.Add(max(0, time.Duration(h.rng.IntN(30)-15)*time.Minute))}
		h.set(object)
	}
}

func (h *history) set(object *v1alpha1.NodeTopology) {
	h.latest[object.Name] = object
	h.fed.Set(object)
}

func (h *history) forget(i, _ int) {
	if h.rng.IntN(10) == 0 {
		delete(h.latest, h.infos[i].Node().Name)
		h.fed.Delete(h.infos[i].Node().Name)
	}
}

func (h *history) wait(int, int) { h.now = h.now.Add(time.Duration(h.rng.IntN(600)) * time.Second) }

// relabel changes a label that the levels do not read.
func (h *history) relabel(i, step int) {
	n := h.infos[i].Node().DeepCopy()
	n.Labels["step"] = fmt.Sprint(step)
	next := framework.NewNodeInfo()
	next.SetNode(n)
	for _, pod := range h.infos[i].GetPods() {
		next.AddPodInfo(pod)
	}
	h.infos = with(h.infos, i, next)
}

func (h *history) removePod(i, _ int) {
	next := h.infos[i].Snapshot()
	pods := next.GetPods()
	if len(pods) == 0 {
		return
	}
	pod := pods[h.rng.IntN(len(pods))].GetPod()
	if err := next.RemovePod(klog.Background(), pod); err != nil {
		h.t.Fatal(err)
	}
	delete(h.holders[i], "ns/"+pod.Name)
	h.infos = with(h.infos, i, next)
}

// addPod: one that the kubelet has admitted, or only the scheduler knows of.
func (h *history) addPod(i, step int) {
	if len(h.holders[i]) >= 8 {
		return
	}
	pod := assumed(fmt.Sprint("p", step), 1)
	pod.UID = types.UID(pod.Name)
	if h.rng.IntN(2) == 0 {
		pod.Status.StartTime = &metav1.Time{Time: h.now}
	}
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		h.t.Fatal(err)
	}
	next := h.infos[i].Snapshot()
	next.AddPodInfo(info)
	h.infos = with(h.infos, i, next)
	h.holders[i]["ns/"+pod.Name] = []int{len(h.holders[i])}
}

// inside is what a planner knows of a host, models by what they are.
func inside(planner *placement.Planner, host int) string {
	g := planner.GPUs(host)
	empty, _ := planner.Empty(host)
	text := fmt.Sprintf("%v %s of %s, %q, empty %v %s", planner.Free(host), g.Free, g.Healthy, g.Unknown, empty.Free, empty.GPUs)
	if g.Model != nil {
		text += fmt.Sprint(" ring ", g.Model.RingBandwidth(0b1111), " uniform ", g.Model.Uniform())
	}
	return text
}

// TestOnlyWhatChangedIsReadAgain: a heartbeat costs one host.
func TestOnlyWhatChangedIsReadAgain(t *testing.T) {
	now := noon
	var known Topologies
	b := NewBuilder(rackLevel)
	b.Follow(&known, func() time.Time { return now })
	var infos []fwk.NodeInfo
	for i := range 50 {
		infos = append(infos, infoOf(node(fmt.Sprint("n", i), "r1")))
		known.Set(readTopology(t, "hgx-h100", fmt.Sprint("n", i)))
	}
	hosts := b.Build(infos)
	b.Planner(hosts, nil)
	if got := b.gpus.stale(hosts.Tree); len(got) > 0 {
		t.Errorf("nothing has changed, and %d hosts are read again", len(got))
	}
	known.Set(readTopology(t, "hgx-h100", "n7"))
	known.Set(readTopology(t, "hgx-h100", "elsewhere"))
	if got := b.gpus.stale(hosts.Tree); len(got) != 1 || hosts.Tree.HostName(got[0]) != "n7" {
		t.Errorf("read again: %v, want n7 alone", got)
	}
	now = noon.Add(HeartbeatLimit)
	if got := b.gpus.stale(hosts.Tree); len(got) != 50 {
		t.Errorf("all agents have fallen silent, and %d hosts are read again", len(got))
	}
}
