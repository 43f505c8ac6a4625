// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
)

// newTestGuard has the nodes of eightHosts, with these pods on n0.
func newTestGuard(pods ...*v1.Pod) (*guard, *testingclock.FakeClock, *fakeHandle) {
	_, nodes := eightHosts()
	handle := newFakeHandle(1)
	g := newGuard("ours", nodes, func(node string) []*v1.Pod {
		return slices.DeleteFunc(slices.Clone(pods), func(pod *v1.Pod) bool { return pod.Spec.NodeName != node })
	}, &fakeRecorder{handle: handle})
	clock := testingclock.NewFakeClock(epochZero)
	g.clock = clock
	return g, clock, handle
}

func podOn(node, scheduler string, gpus string) *v1.Pod {
	pod := &v1.Pod{Spec: v1.PodSpec{NodeName: node, SchedulerName: scheduler, Containers: []v1.Container{{}}}}
	pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{gpu: resource.MustParse(gpus)}
	return pod
}

func TestRejectedPodsHaveTheirNodeAvoided(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		age    time.Duration
		want   bool
	}{
		"too little of a resource":  {"OutOfnvidia.com/gpu", time.Second, true},
		"too little CPU":            {"OutOfcpu", time.Second, true},
		"the device plugin refuses": {"UnexpectedAdmissionError", time.Second, true},
		"not on one socket":         {"TopologyAffinityError", time.Second, true},
		"its program failed":        {"", time.Second, false},
		"evicted by the kubelet":    {"Evicted", time.Second, false},
		"long ago":                  {"OutOfcpu", time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			g, _, handle := newTestGuard()
			pod := podOn("n0", "ours", "1")
			pod.Status = v1.PodStatus{Phase: v1.PodFailed, Reason: tc.reason, Conditions: []v1.PodCondition{
				{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(epochZero.Add(-tc.age))},
			}}
			g.failed(pod)
			if got := g.avoids("n0") != ""; got != tc.want {
				t.Errorf("avoided: %t, want %t", got, tc.want)
			}
			if told := len(handle.events) == 1 && strings.Contains(handle.events[0], "PlacementConflict"); told != tc.want {
				t.Errorf("events %v", handle.events)
			}
			if g.avoids("n1") != "" {
				t.Error("another node is avoided")
			}
		})
	}
}

func TestNodesThatSeveralSchedulersFilledAreAvoided(t *testing.T) {
	for name, tc := range map[string]struct {
		pods []*v1.Pod
		want bool
	}{
		"ours and theirs, too much": {[]*v1.Pod{podOn("n0", "ours", "6"), podOn("n0", "theirs", "4")}, true},
		"ours and theirs, it fits":  {[]*v1.Pod{podOn("n0", "ours", "4"), podOn("n0", "theirs", "4")}, false},
		"theirs alone":              {[]*v1.Pod{podOn("n0", "theirs", "6"), podOn("n0", "theirs", "4")}, false},
		"on two nodes":              {[]*v1.Pod{podOn("n0", "ours", "6"), podOn("n1", "theirs", "4")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g, _, _ := newTestGuard(tc.pods...)
			for _, pod := range tc.pods {
				g.bound(pod)
			}
			if got := g.avoids("n0") != ""; got != tc.want {
				t.Errorf("avoided: %t, want %t", got, tc.want)
			}
		})
	}
}

func TestNodesAreAvoidedLongerWhenItHappensAgain(t *testing.T) {
	g, clock, _ := newTestGuard()
	last := clock.Now()
	for i, want := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 16 * time.Minute} {
		g.conflict("n0", conflictRejected, "a")
		g.conflict("n0", conflictRejected, "b") // of the same time
		clock.Step(want - time.Second)
		if g.avoids("n0") == "" {
			t.Fatalf("the %d. time it was avoided for less than %s", i+1, want)
		}
		if g.expired(last, clock.Now()) {
			t.Error("the gate was told too early")
		}
		last = clock.Now()
		clock.Step(time.Second)
		if g.avoids("n0") != "" {
			t.Fatalf("the %d. time it was avoided for more than %s", i+1, want)
		}
		if !g.expired(last, clock.Now()) {
			t.Error("the gate was not told")
		}
		last = clock.Now()
	}
	clock.Step(soonAfter + time.Second)
	g.conflict("n0", conflictRejected, "c")
	clock.Step(firstAvoid)
	if g.avoids("n0") != "" {
		t.Error("what lies long back made it longer")
	}
}
