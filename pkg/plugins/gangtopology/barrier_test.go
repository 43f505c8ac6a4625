// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tutti-project/tutti/pkg/clusterview"
	"github.com/tutti-project/tutti/pkg/placement"
)

// commit is one gang of two roles, ps and worker, at the barrier.
type commit struct {
	*testing.T
	handle *fakeHandle
	plugin *Plugin
	round  *round
	states map[string]*framework.CycleState
}

func newCommit(t *testing.T, psMinimum, workerMinimum int) *commit {
	handle := newFakeHandle(int32(psMinimum + workerMinimum))
	c := &commit{T: t, handle: handle, plugin: newPlugin(t, handle, nil), states: map[string]*framework.CycleState{}}
	c.round = c.plugin.newRound(gathered{
		key: theGang, group: handle.group, roles: make([]clusterview.Role, 2),
		problem: placement.Problem{Roles: []placement.Role{{Minimum: psMinimum}, {Minimum: workerMinimum}}},
		quotas:  []quota{{pods: psMinimum + workerMinimum}},
	}, "rack r1", nil)
	return c
}

// permit brings one pod to the barrier and does what the engine does with the
// answer.
func (c *commit) permit(name string, role int) fwk.Code {
	pod := &v1.Pod{}
	pod.Name, pod.UID = name, podNamed(name).UID
	state := framework.NewCycleState()
	state.Write(pinKey, &pinned{pin: pin{role: role}, round: c.round})
	c.states[name] = state
	c.handle.scheduled = append(c.handle.scheduled, pod)
	status, _ := c.plugin.Permit(c.Context(), state, pod, "n1")
	if status.IsWait() {
		c.handle.waiting[pod.UID] = &fakeWaiting{}
	}
	return status.Code()
}

// lose does what the engine does with a pod that cannot go on.
func (c *commit) lose(name string) {
	c.plugin.Unreserve(c.Context(), c.states[name], podNamed(name), "n1")
}

// preBind brings pods to the second barrier, all at a time, and returns what
// becomes of each.
func (c *commit) preBind(names ...string) []string {
	ctx, cancel := context.WithTimeout(c.Context(), time.Second)
	defer cancel()
	outcomes := make([]string, len(names))
	var group sync.WaitGroup
	for i, name := range names {
		group.Go(func() {
			outcomes[i] = name + " " + c.plugin.PreBind(ctx, c.states[name], podNamed(name), "n1").Code().String()
		})
	}
	group.Wait()
	return outcomes
}

func (c *commit) verdicts() []string {
	var all []string
	for uid, pod := range c.handle.waiting {
		all = append(all, string(uid)+" "+pod.verdict)
	}
	slices.Sort(all)
	return all
}

func TestBarrierOpensWithTheLastMember(t *testing.T) {
	c := newCommit(t, 1, 2)
	for _, step := range []struct {
		pod  string
		role int
		want fwk.Code
	}{{"ps-0", 0, fwk.Wait}, {"worker-0", 1, fwk.Wait}, {"worker-1", 1, fwk.Success}} {
		if got := c.permit(step.pod, step.role); got != step.want {
			t.Errorf("%s: %s, want %s", step.pod, got, step.want)
		}
	}
	if diff := cmp.Diff([]string{"ps-0 allowed", "worker-0 allowed"}, c.verdicts()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(c.handle.events) != 0 {
		t.Errorf("events %q before any is ready to bind", c.handle.events)
	}
	want := []string{"worker-1 Success", "ps-0 Success", "worker-0 Success"}
	if diff := cmp.Diff(want, c.preBind("worker-1", "ps-0", "worker-0")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(c.handle.events) != 1 {
		t.Errorf("events %q, want one", c.handle.events)
	}
}

func TestNobodyBindsBeforeAllAreReady(t *testing.T) {
	c := newCommit(t, 1, 1)
	c.permit("ps-0", 0)
	c.permit("worker-0", 1)
	c.permit("worker-1", 1) // an extra
	if diff := cmp.Diff([]string{"ps-0 Error", "worker-1 Error"}, c.preBind("ps-0", "worker-1")); diff != "" {
		t.Errorf("while worker-0 is not ready, -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"worker-0 Success", "worker-1 Success"}, c.preBind("worker-0", "worker-1")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestAllGoBackWhenOneCannotBeMadeReady(t *testing.T) {
	c := newCommit(t, 1, 1)
	c.permit("ps-0", 0)
	c.permit("worker-0", 1)
	c.plugin.Unreserve(t.Context(), c.states["worker-0"], podNamed("worker-0"), "n1")
	if diff := cmp.Diff([]string{"ps-0 Unschedulable"}, c.preBind("ps-0")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if last := c.handle.events[len(c.handle.events)-1]; !strings.Contains(last, "pod worker-0 could not be made ready") {
		t.Errorf("last event %q", last)
	}
}

func TestAllGoBackWhenOneWasDeletedMeanwhile(t *testing.T) {
	c := newCommit(t, 1, 1)
	c.permit("ps-0", 0)
	c.permit("worker-0", 1)
	c.handle.scheduled = c.handle.scheduled[:1]
	want := []string{"ps-0 Unschedulable", "worker-0 Unschedulable"}
	if diff := cmp.Diff(want, c.preBind("ps-0", "worker-0")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestBarrierCountsEachRole(t *testing.T) {
	c := newCommit(t, 1, 1)
	c.permit("worker-0", 1)
	if got := c.permit("worker-1", 1); got != fwk.Wait {
		t.Errorf("two workers and no ps: %s, want Wait", got)
	}
	if got := c.permit("ps-0", 0); got != fwk.Success {
		t.Errorf("complete: %s, want Success", got)
	}
}

func TestBarrierLetsExtrasFollowFreely(t *testing.T) {
	c := newCommit(t, 0, 1)
	c.permit("worker-0", 1)
	if got := c.permit("worker-1", 1); got != fwk.Success {
		t.Errorf("an extra after the quorum: %s, want Success", got)
	}
}

func TestBarrierRejectsAllWhenOneMemberIsLost(t *testing.T) {
	c := newCommit(t, 1, 2)
	c.permit("ps-0", 0)
	c.permit("worker-0", 1)
	c.plugin.Unreserve(t.Context(), c.states["worker-0"], podNamed("worker-0"), "n1")
	if diff := cmp.Diff([]string{"ps-0 rejected", "worker-0 rejected"}, c.verdicts()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := c.permit("worker-1", 1); got != fwk.Unschedulable {
		t.Errorf("a member after the loss: %s, want Unschedulable", got)
	}
}

func TestBarrierIgnoresTheSimulation(t *testing.T) {
	c := newCommit(t, 1, 1)
	c.permit("ps-0", 0)
	simulated := framework.NewCycleState()
	simulated.Write(pinKey, &pinned{round: c.round})
	simulated.SetPodGroupSchedulingCycle(framework.NewCycleState())
	c.plugin.Unreserve(t.Context(), simulated, podNamed("ps-0"), "n1")
	if got := c.permit("worker-0", 1); got != fwk.Success {
		t.Errorf("after a simulated unreserve: %s, want Success", got)
	}
}

func TestBarrierStaysOpenWhenABindFails(t *testing.T) {
	c := newCommit(t, 1, 1)
	c.permit("ps-0", 0)
	c.permit("worker-0", 1)
	c.preBind("ps-0", "worker-0")
	c.plugin.Unreserve(t.Context(), c.states["worker-0"], podNamed("worker-0"), "n1")
	if diff := cmp.Diff([]string{"ps-0 allowed"}, c.verdicts()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if last := c.handle.events[len(c.handle.events)-1]; !strings.Contains(last, "pod worker-0 could not be bound and is tried again") {
		t.Errorf("last event %q", last)
	}
}

// TestRoomIsKeptForAPodThatCouldNotBeBound: a gang planned before it is tried
// again must not take its place.
func TestRoomIsKeptForAPodThatCouldNotBeBound(t *testing.T) {
	for name, tc := range map[string]struct {
		node string // of the pod as the API has it
		kept bool
	}{
		"it is not bound":                      {"", true},
		"it is, and the answer alone was lost": {"n1", false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCommit(t, 1, 1)
			current := podNamed("worker-0")
			current.Spec.NodeName = tc.node
			c.plugin.rooms = newTestRooms(current)
			c.permit("ps-0", 0)
			c.permit("worker-0", 1)
			c.preBind("ps-0", "worker-0")
			pod := &v1.Pod{}
			pod.Name, pod.UID = "worker-0", podNamed("worker-0").UID
			c.plugin.Unreserve(t.Context(), c.states["worker-0"], pod, "n1")
			if kept := c.plugin.rooms.kept[pod.UID].node == "n1"; kept != tc.kept {
				t.Errorf("room is kept: %t, want %t", kept, tc.kept)
			}
		})
	}
}

func TestPermitPassesPodsOfNoGang(t *testing.T) {
	c := newCommit(t, 1, 1)
	if status, _ := c.plugin.Permit(t.Context(), framework.NewCycleState(), &v1.Pod{}, "n1"); !status.IsSuccess() {
		t.Errorf("got %s", status)
	}
}
