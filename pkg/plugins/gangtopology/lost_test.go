// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	testingclock "k8s.io/utils/clock/testing"
)

// lostMember is one of gang g, of 3 GPUs, that was on the node.
func lostMember(name, node string) *v1.Pod {
	pod := waitingFor(name, "", 5)
	pod.Spec.NodeName = node
	return pod
}

// TestPlaceOfALostMember: it is held while what is left of the gang is in part, from
// nobody of higher priority nor of the gang, and not for ever.
func TestPlaceOfALostMember(t *testing.T) {
	preempted := lostMember("p", "n")
	preempted.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler}}
	single := lostMember("p", "n")
	single.Spec.SchedulingGroup = nil
	yes := func(*v1.Pod, string) bool { return true }
	for name, tc := range map[string]struct {
		lost     *v1.Pod
		whole    bool // the gang runs with its minimum, or not at all
		priority int32
		own      bool
		then     func(*rooms, *testingclock.FakeClock)
		want     int64
	}{
		"is held from equals":               {lost: lostMember("p", "n"), priority: 5, want: 5},
		"is held from those below":          {lost: lostMember("p", "n"), priority: 4, want: 5},
		"is not held from those above":      {lost: lostMember("p", "n"), priority: 6, want: 8},
		"is not held from the gang":         {lost: lostMember("p", "n"), priority: 5, own: true, want: 8},
		"of a gang that needs none":         {lost: lostMember("p", "n"), whole: true, priority: 5, want: 8},
		"of one that was evicted":           {lost: preempted, priority: 5, want: 8},
		"of a pod in no gang":               {lost: single, priority: 5, want: 8},
		"of one that had no node":           {lost: lostMember("p", ""), priority: 5, want: 8},
		"of a host that is no more":         {lost: lostMember("p", "gone"), priority: 5, want: 8},
		"ends when the gang is whole again": {lost: lostMember("p", "n"), priority: 5, want: 8, then: func(r *rooms, _ *testingclock.FakeClock) { r.whole(theGang) }},
		"and not when another one is":       {lost: lostMember("p", "n"), priority: 5, want: 5, then: func(r *rooms, _ *testingclock.FakeClock) { r.whole(types.NamespacedName{Name: "other"}) }},
		"is held for its time":              {lost: lostMember("p", "n"), priority: 5, want: 5, then: func(_ *rooms, c *testingclock.FakeClock) { c.Step(tornPatience) }},
		"and no longer":                     {lost: lostMember("p", "n"), priority: 5, want: 8, then: func(_ *rooms, c *testingclock.FakeClock) { c.Step(tornPatience + time.Second) }},
		"as long as the node takes no such pod": {lost: lostMember("p", "n"), priority: 5, want: 5, then: func(r *rooms, c *testingclock.FakeClock) {
			for range 10 {
				c.Step(tornPatience - time.Second)
				r.expire(func(*v1.Pod, string) bool { return false })
			}
		}},
		"and for its time after that": {lost: lostMember("p", "n"), priority: 5, want: 8, then: func(r *rooms, c *testingclock.FakeClock) {
			c.Step(tornPatience - time.Second)
			r.expire(func(*v1.Pod, string) bool { return false })
			c.Step(tornPatience)
			r.expire(yes)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r, clock, problem := roomScene()
			r.torn = func(types.NamespacedName) bool { return !tc.whole }
			r.runs(tc.lost)
			r.lose(tc.lost)
			if tc.then != nil {
				tc.then(r, clock)
			}
			if got := free(r, problem, tc.priority, func(*v1.Pod) bool { return tc.own }); got != tc.want {
				t.Errorf("%d GPUs are free, want %d", got, tc.want)
			}
		})
	}
}

// TestWhoStandsByForgetsPlaces: pods of gangs end and go all the time, and each of them
// is remembered with all that is in it.
func TestWhoStandsByForgetsPlaces(t *testing.T) {
	r, clock, _ := roomScene()
	r.handle = seesNoNodes{}
	r.torn = func(types.NamespacedName) bool { return false }
	for i := range 100 {
		pod := lostMember(fmt.Sprint("p", i), "n")
		r.runs(pod)
		r.lose(pod)
	}
	if len(r.lost.places["n"]) != 100 {
		t.Fatalf("%d places, want all 100 for a while", len(r.lost.places["n"]))
	}
	clock.Step(tornPatience)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	r.standBy(ctx)
	if len(r.lost.places) != 0 {
		t.Errorf("%d nodes with places, want none", len(r.lost.places))
	}
}

// seesNoNodes is a handle whose informers have seen nothing.
type seesNoNodes struct{ framework.Framework }

func (seesNoNodes) SharedInformerFactory() informers.SharedInformerFactory {
	return informers.NewSharedInformerFactory(fake.NewClientset(), 0)
}

// seesNodes is a handle whose snapshot has these nodes.
type seesNodes struct {
	framework.Framework
	nodes snapshotOf
}

func (s seesNodes) SnapshotSharedLister() fwk.SharedLister { return sharedLister{nodes: s.nodes} }

type sharedLister struct {
	fwk.SharedLister
	nodes snapshotOf
}

func (l sharedLister) NodeInfos() fwk.NodeInfoLister { return l.nodes }

// snapshotOf is a snapshot of one node.
type snapshotOf struct {
	fwk.NodeInfoLister
	node fwk.NodeInfo
}

func (s snapshotOf) Get(name string) (fwk.NodeInfo, error) {
	if name != s.node.Node().Name {
		return nil, fmt.Errorf("there is no node %s", name)
	}
	return s.node, nil
}

func (s snapshotOf) List() ([]fwk.NodeInfo, error) { return []fwk.NodeInfo{s.node}, nil }

// TestSinglePodMayNotHaveThePlaceOfALostMember, but what is left of the node, and is
// tried again when the place is given up.
func TestSinglePodMayNotHaveThePlaceOfALostMember(t *testing.T) {
	node := framework.NewNodeInfo()
	node.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: v1.NodeStatus{Allocatable: v1.ResourceList{
		"nvidia.com/gpu": resource.MustParse("4"), v1.ResourcePods: resource.MustParse("10"),
	}}})
	for name, tc := range map[string]struct {
		priority int32
		gpus     string
		want     fwk.Code
	}{
		"one that needs the place":            {5, "2", fwk.Unschedulable},
		"one that fits beside it":             {5, "1", fwk.Success},
		"one that is more important":          {6, "2", fwk.Success},
		"one that finds no room in any case":  {4, "5", fwk.Unschedulable},
		"one that asks for nothing on a host": {4, "0", fwk.Success},
	} {
		t.Run(name, func(t *testing.T) {
			r, clock, _ := roomScene()
			r.torn = func(types.NamespacedName) bool { return true }
			p := &Plugin{rooms: r, handle: seesNodes{nodes: snapshotOf{node: node}}}
			pod := waitingFor("single", "", tc.priority)
			pod.Spec.SchedulingGroup = nil
			pod.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"] = resource.MustParse(tc.gpus)
			state := framework.NewCycleState()
			if _, status := p.PreFilter(t.Context(), state, pod, nil); status.Code() != fwk.Skip {
				t.Errorf("with nothing held: %s, want to be skipped", status.Code())
			}
			r.runs(lostMember("p", "n")) // nobody has told that it has gone, but it is not on its node
			if _, status := p.PreFilter(t.Context(), state, pod, nil); status.Code() == fwk.Skip && tc.priority <= 5 {
				t.Error("the place is not looked at")
			}
			status := p.Filter(t.Context(), state, pod, node)
			if status.Code() != tc.want {
				t.Fatalf("got %s, want %s", status.Code(), tc.want)
			}
			if tc.want != fwk.Success && !strings.Contains(status.Message(), "gang ns/g") {
				t.Errorf("the gang is not named: %s", status.Message())
			}
			clock.Step(2 * time.Second)
			woken := slices.Collect(maps.Keys(r.whole(theGang)))
			_, late := r.expire(func(*v1.Pod, string) bool { return true })
			woken = append(woken, slices.Collect(maps.Keys(late))...)
			var want []string
			if tc.want != fwk.Success {
				want = []string{"ns/single", "ns/single"} // at once, and once more in case it was just being tried
			}
			if diff := cmp.Diff(want, woken); diff != "" {
				t.Errorf("tried again (-want +got):\n%s", diff)
			}
			if _, again := r.expire(func(*v1.Pod, string) bool { return true }); len(again) > 0 {
				t.Error("and again")
			}
		})
	}
}

// TestGangInPart is one that has nodes for some pods, but not for its minimum.
func TestGangInPart(t *testing.T) {
	going := podNamed("going")
	going.DeletionTimestamp = &metav1.Time{Time: epochZero}
	for name, tc := range map[string]struct {
		minimum   int32
		scheduled []*v1.Pod
		want      bool
	}{
		"none runs":                {2, nil, false},
		"one of two":               {2, []*v1.Pod{podNamed("a")}, true},
		"both":                     {2, []*v1.Pod{podNamed("a"), podNamed("b")}, false},
		"one goes, the other runs": {2, []*v1.Pod{podNamed("a"), going}, true},
		"the only one goes":        {2, []*v1.Pod{going}, false},
		"more than it needs":       {1, []*v1.Pod{podNamed("a"), podNamed("b")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			handle := newFakeHandle(tc.minimum)
			handle.scheduled = tc.scheduled
			if got := runsInPart(handle.PodGroupManager(), theGang); got != tc.want {
				t.Errorf("in part: %t, want %t", got, tc.want)
			}
		})
	}
	handle := newFakeHandle(2)
	handle.group = nil
	if runsInPart(handle.PodGroupManager(), theGang) {
		t.Error("a gang without a group is in part")
	}
}

// TestWhoHasGoneIsNoticedBeforeItIsTold, and who has only just come is not lost.
func TestWhoHasGoneIsNoticedBeforeItIsTold(t *testing.T) {
	r, _, problem := roomScene()
	r.torn = func(types.NamespacedName) bool { return true }
	node := framework.NewNodeInfo()
	node.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	stays, comes := lostMember("stays", "n"), lostMember("comes", "n")
	see := func(what string, want int64) {
		t.Helper()
		r.notice(snapshotOf{node: node})
		if got := free(r, problem, 5, nobody); got != want {
			t.Errorf("%s: %d GPUs are free, want %d", what, got, want)
		}
	}
	info := func(pod *v1.Pod) *framework.PodInfo {
		i, err := framework.NewPodInfo(pod)
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	node.AddPodInfo(info(stays))
	r.runs(stays)
	see("it is there", 8)
	r.runs(comes)
	see("the engine has not heard of it", 5)
	node.AddPodInfo(info(comes))
	see("now it has", 8)
	if err := node.RemovePod(klog.Background(), comes); err != nil {
		t.Fatal(err)
	}
	see("it has gone", 5)
	r.lose(comes)
	see("it is told that it has gone", 5)
	r.whole(theGang)
	see("the gang is whole", 8)
}
