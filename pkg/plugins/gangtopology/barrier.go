// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// barrierTimeout bounds how long reserved members wait for the rest. The whole
// gang is committed in one loop of the scheduling thread, so the wait is
// milliseconds; a gang that waits longer has lost a member to an error.
const barrierTimeout = 2 * time.Second

// round is one commit of one gang: no member binds before every role has its
// minimum reserved. It counts; each member's Permit is O(1), the last one's
// O(members).
type round struct {
	plugin *Plugin
	key    types.NamespacedName
	group  *schedulingv1beta1.PodGroup
	domain string
	count  tally

	mu      sync.Mutex
	missing []int // [role] reservations until the minimum
	waiting []types.UID
	state   roundState
}

type roundState int

const (
	roundPending roundState = iota
	roundOpen
	roundAborted
)

func (p *Plugin) newRound(g gathered, domain string, placed map[types.UID]pin) *round {
	r := &round{plugin: p, key: g.key, group: g.group, domain: domain, missing: make([]int, len(g.roles))}
	r.count = tally{placed: len(placed), running: g.running, all: g.running}
	for i, role := range g.problem.Roles {
		r.missing[i] = role.Minimum
		r.count.all += role.Pods
	}
	return r
}

// Permit implements fwk.PermitPlugin.
func (p *Plugin) Permit(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	pinned := pinOf(state)
	if pinned == nil {
		return nil, 0
	}
	return pinned.round.arrive(pod, pinned.role)
}

func (r *round) arrive(pod *v1.Pod, role int) (*fwk.Status, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == roundAborted {
		return fwk.NewStatus(fwk.Unschedulable, "another pod of the gang could not be reserved"), 0
	}
	r.missing[role]--
	if r.state == roundPending {
		if r.incomplete() {
			r.waiting = append(r.waiting, pod.UID)
			return fwk.NewStatus(fwk.Wait, "waiting for the rest of the gang"), barrierTimeout
		}
		r.open()
	}
	return nil, 0
}

func (r *round) incomplete() bool {
	for _, missing := range r.missing {
		if missing > 0 {
			return true
		}
	}
	return false
}

func (r *round) open() {
	r.state = roundOpen
	for _, uid := range r.waiting {
		if waiting := r.plugin.handle.GetWaitingPod(uid); waiting != nil {
			waiting.Allow(Name)
		}
	}
	r.waiting = nil
	r.plugin.gate.placed(r.key)
	r.plugin.report.placed(r.group, r.count, r.domain)
}

// lose is called when a reserved member could not go on. Before the barrier is
// open that rejects all who wait at it; after that the others may be bound
// already, so the pod is tried again, and the verdict says so.
func (r *round) lose(pod *v1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == roundOpen && pod.DeletionTimestamp == nil {
		r.plugin.report.refused(r.group, fmt.Sprintf("pod %s could not be bound and is tried again; its events say why", pod.Name))
	}
	if r.state != roundPending {
		return
	}
	r.state = roundAborted
	for _, uid := range r.waiting {
		if waiting := r.plugin.handle.GetWaitingPod(uid); waiting != nil {
			waiting.Reject(Name, "another pod of the gang could not be reserved")
		}
	}
	r.waiting = nil
}

// Reserve implements fwk.ReservePlugin.
func (p *Plugin) Reserve(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status { return nil }

// Unreserve implements fwk.ReservePlugin. In the simulation of a gang it is
// called for every member and means nothing; in the commit it means that a
// member was lost, and before the barrier is open the whole gang with it.
func (p *Plugin) Unreserve(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ string) {
	if pinned := pinOf(state); pinned != nil && !state.IsPodGroupSchedulingCycle() {
		pinned.round.lose(pod)
	}
}
