// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/tutti-project/tutti/pkg/placement"
	"github.com/tutti-project/tutti/pkg/topology"
)

// roomScene has one host of 8 GPUs and the rooms kept on it.
func roomScene() (*rooms, *testingclock.FakeClock, placement.Problem) {
	clock := testingclock.NewFakeClock(epochZero)
	tree := topology.New(nil, []topology.HostLabels{{Name: "n"}})
	return &rooms{clock: clock, kept: map[types.UID]room{}, lost: newLost()}, clock, placement.Problem{Tree: tree, Resources: []string{"nvidia.com/gpu"}, Free: [][]int64{{8}}}
}

func waitingFor(name, node string, priority int32) *v1.Pod {
	pod := podNamed(name)
	pod.Spec.Priority = &priority
	pod.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"nvidia.com/gpu": resource.MustParse("3")}}}}
	pod.Status.NominatedNodeName = node
	return pod
}

func nobody(*v1.Pod) bool { return false }

// free is what a planner for pods of the priority is told of the host.
func free(r *rooms, problem placement.Problem, priority int32, own func(*v1.Pod) bool) int64 {
	for _, change := range r.beside(problem, priority, own) {
		return change.Free[0]
	}
	return problem.Free[0][0]
}

func TestRoomIsKeptFromEqualsAndThoseBelow(t *testing.T) {
	r, _, problem := roomScene()
	r.added(waitingFor("p", "n", 5))
	r.added(waitingFor("elsewhere", "gone", 5))
	for priority, want := range map[int32]int64{4: 5, 5: 5, 6: 8} {
		if got := free(r, problem, priority, nobody); got != want {
			t.Errorf("a pod of priority %d sees %d GPUs, want %d", priority, got, want)
		}
	}
	if got := free(r, problem, 5, func(pod *v1.Pod) bool { return pod.Name == "p" }); got != 8 {
		t.Errorf("the pod itself sees %d GPUs, want 8", got)
	}
}

func TestRoomEnds(t *testing.T) {
	pod := waitingFor("p", "n", 5)
	bound, denied, moved := pod.DeepCopy(), pod.DeepCopy(), pod.DeepCopy()
	bound.Spec.NodeName = "n"
	denied.Status.NominatedNodeName = ""
	moved.Status.NominatedNodeName = "gone"
	for name, tc := range map[string]struct {
		end  func(*rooms, *testingclock.FakeClock)
		want int64
	}{
		"not by itself":                   {func(*rooms, *testingclock.FakeClock) {}, 5},
		"when the pod is bound":           {func(r *rooms, _ *testingclock.FakeClock) { r.updated(pod, bound) }, 8},
		"when it is denied":               {func(r *rooms, _ *testingclock.FakeClock) { r.updated(pod, denied) }, 8},
		"when it is moved":                {func(r *rooms, _ *testingclock.FakeClock) { r.updated(pod, moved) }, 8},
		"when the pod goes":               {func(r *rooms, _ *testingclock.FakeClock) { r.drop(pod) }, 8},
		"not before its time":             {func(_ *rooms, c *testingclock.FakeClock) { c.Step(keepFor) }, 5},
		"when its time has passed":        {func(_ *rooms, c *testingclock.FakeClock) { c.Step(keepFor + time.Second) }, 8},
		"not when something else changes": {func(r *rooms, _ *testingclock.FakeClock) { r.updated(pod, pod.DeepCopy()) }, 5},
	} {
		t.Run(name, func(t *testing.T) {
			r, clock, problem := roomScene()
			r.added(pod)
			tc.end(r, clock)
			if got := free(r, problem, 5, nobody); got != tc.want {
				t.Errorf("%d GPUs are free, want %d", got, tc.want)
			}
		})
	}
}

// TestRoomsLastUntilTheirTime: a room that was kept until a victim's grace ends is
// not cut short by the pod's own status, which comes later.
func TestRoomsLastUntilTheirTime(t *testing.T) {
	r, clock, _ := roomScene()
	long, short := waitingFor("long", "n", 0), waitingFor("short", "n", 0)
	r.keep(long, "n", epochZero.Add(time.Hour))
	r.keep(short, "n", epochZero.Add(time.Minute))
	r.updated(podNamed("long"), long)
	var got []string
	for range 3 {
		clock.Step(31 * time.Minute)
		names := []string{}
		for _, pod := range r.overdue() {
			names = append(names, pod.Name)
		}
		got = append(got, fmt.Sprint(names))
	}
	if diff := cmp.Diff([]string{"[short]", "[long]", "[]"}, got); diff != "" {
		t.Errorf("overdue (-want +got):\n%s", diff)
	}
}
