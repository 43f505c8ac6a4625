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
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tutti-project/tutti/pkg/topology"
)

// barrierTimeout bounds how long reserved members wait for the rest. The whole
// gang is committed in one loop of the scheduling thread, so the wait is
// milliseconds; a gang that waits longer has lost a member to an error.
const barrierTimeout = 2 * time.Second

// round is one commit of one gang. Its members meet at two barriers. At Permit
// they wait until every role has its minimum reserved. Then the other plugins
// prepare each of them, which may take long and fail (volumes are made, devices
// claimed); in its own PreBind, which comes last, each waits until all are
// ready. Only then the first binds. Members beyond the minimum that come later
// wait for the same moment, and nobody waits for them. It counts; a member's
// step is O(1), the one that opens a barrier O(members).
type round struct {
	plugin *Plugin
	key    types.NamespacedName
	group  *schedulingv1beta1.PodGroup
	domain string
	count  tally
	begun  time.Time
	start  *start            // nil if a part of the gang ran before
	extras bool              // the gang's minimum ran before
	links  []topology.Demand // [role]

	mu      sync.Mutex
	missing []int // [role] reservations until the minimum
	waiting []types.UID
	// needed are the members that made the quorum, those false that are not
	// ready to bind yet; unready counts them.
	needed  map[types.UID]bool
	unready int
	// here are the members that were at Permit and have not been lost.
	here map[types.UID]bool
	// decided is closed when the round is binding or aborted.
	decided chan struct{}
	state   roundState
}

type roundState int

const (
	roundPending roundState = iota
	roundReserved
	roundBinding
	roundAborted
)

func (p *Plugin) newRound(g gathered, domain string, placed map[types.UID]pin) *round {
	r := &round{plugin: p, key: g.key, group: g.group, domain: domain, missing: make([]int, len(g.roles)),
		needed: map[types.UID]bool{}, here: map[types.UID]bool{}, decided: make(chan struct{}),
		begun: p.gate.clock.Now(), extras: !g.needs()}
	if g.running == 0 {
		s := g.startOf(placed)
		r.start = &s
	}
	r.count = tally{placed: len(placed), running: g.running, all: g.running}
	for i, role := range g.problem.Roles {
		r.missing[i] = role.Minimum
		r.links = append(r.links, role.Link)
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
	if len(r.here) == 0 && r.state == roundPending && !r.extras {
		r.plugin.rounds.begin(r)
	}
	r.here[pod.UID] = true
	r.missing[role]--
	if r.state != roundPending {
		return nil, 0
	}
	r.needed[pod.UID] = false
	if r.incomplete() {
		r.waiting = append(r.waiting, pod.UID)
		return fwk.NewStatus(fwk.Wait, "waiting for the rest of the gang"), barrierTimeout
	}
	r.state, r.unready = roundReserved, len(r.needed)
	for _, uid := range r.waiting {
		if waiting := r.plugin.handle.GetWaitingPod(uid); waiting != nil {
			waiting.Allow(Name)
		}
	}
	r.waiting = nil
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

// PreBindPreFlight implements fwk.PreBindPlugin.
func (p *Plugin) PreBindPreFlight(_ context.Context, state fwk.CycleState, _ *v1.Pod, _ string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	if pinOf(state) == nil {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return nil, nil
}

// PreBind implements fwk.PreBindPlugin: the second barrier.
func (p *Plugin) PreBind(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	pinned := pinOf(state)
	if pinned == nil {
		return nil
	}
	r := pinned.round
	r.ready(pod)
	select {
	case <-r.decided:
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == roundAborted {
		return fwk.NewStatus(fwk.Unschedulable, "another pod of the gang could not be made ready to bind")
	}
	if ctx.Err() != nil {
		return fwk.AsStatus(context.Cause(ctx))
	}
	if p.remains.goes(r.key) {
		return fwk.NewStatus(fwk.Unschedulable, beingEvicted)
	}
	p.promises.make(node, pod, r.links[pinned.role])
	return nil
}

// ready notes that the pod can bind, and lets all bind when it is the last.
func (r *round) ready(pod *v1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if done, needed := r.needed[pod.UID]; done || !needed || r.state != roundReserved {
		return
	}
	r.needed[pod.UID] = true
	if r.unready--; r.unready > 0 {
		return
	}
	if !r.plugin.gate.reserved(r.key, r.needed) || r.plugin.remains.goes(r.key) {
		r.abort() // one that was deleted meanwhile would be missing from the start
		return
	}
	r.state = roundBinding
	close(r.decided)
	r.over(settle)
	r.plugin.remains.begins(r.key)
	waited := r.plugin.gate.placed(r.key)
	if turned := r.plugin.rooms.whole(r.key); len(turned) > 0 {
		r.plugin.handle.Activate(klog.Background(), turned)
	}
	r.plugin.meter.placed(r.count.all, waited)
	if r.start != nil {
		r.plugin.gate.begins(r.key)
		r.plugin.meter.begins(*r.start)
	}
	r.plugin.report.placed(r.group, r.count, r.domain)
}

// lose is called when a reserved member could not go on. Before the others bind
// that aborts all of them; after that they may be bound already, so the pod is
// tried again, and the verdict says so; unbound is true then.
func (r *round) lose(pod *v1.Pod) (unbound bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, needed := r.needed[pod.UID]
	delete(r.here, pod.UID)
	defer r.drained()
	switch {
	case r.state == roundBinding && pod.DeletionTimestamp == nil:
		r.plugin.meter.attempted(outcomeUnbound)
		r.plugin.report.refused(r.group, fmt.Sprintf("pod %s could not be bound and is tried again; its events say why", pod.Name))
		r.plugin.gate.failed(r.key)
		r.inVain()
		return true
	case r.state == roundReserved && needed:
		none := "none of the gang is bound"
		if r.count.running > 0 {
			none = fmt.Sprintf("none is bound of those that were planned beside the %d that run,", r.count.running)
			r.inVain()
		}
		r.plugin.report.refused(r.group, fmt.Sprintf("pod %s could not be made ready to bind, so %s and all are tried again; its events say why", pod.Name, none))
		r.abort()
	case r.state == roundPending:
		r.abort()
	}
	return false
}

// inVain notes that the gang has nodes below its minimum, and could not be completed.
// Pods beyond the minimum are no reason to let it go. Callers hold mu.
func (r *round) inVain() {
	if !r.extras {
		r.plugin.gate.inVain(r.key, r.begun)
	}
}

// leave is called when a pod is deleted.
func (r *round) leave(pod types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, needed := r.needed[pod]; needed && (r.state == roundPending || r.state == roundReserved) {
		r.abort()
	}
}

func (r *round) isAborted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state == roundAborted
}

// drained ends an aborted round when nobody is here any more. Callers hold mu.
func (r *round) drained() {
	if r.state == roundAborted && len(r.here) == 0 {
		r.over(lastRetry)
	}
}

// over lets the gang be planned again, after so long at the most. Callers hold mu.
func (r *round) over(atMost time.Duration) {
	if r.plugin.rounds.end(r) {
		r.plugin.gate.resume(r.key, atMost)
	}
}

// abort sends all members back, also those that would be made ready for a long time
// yet. Callers hold mu.
func (r *round) abort() {
	r.state = roundAborted
	r.plugin.meter.attempted(outcomeAborted)
	close(r.decided)
	for _, uid := range r.waiting {
		if waiting := r.plugin.handle.GetWaitingPod(uid); waiting != nil {
			waiting.Reject(Name, "another pod of the gang could not be reserved")
		}
	}
	r.waiting = nil
	for uid := range r.here {
		if preparing := r.plugin.handle.GetPodInPreBind(uid); preparing != nil {
			preparing.CancelPod("another pod of the gang could not be made ready to bind")
		}
	}
}

// Reserve implements fwk.ReservePlugin: in a commit the pod has its room.
func (p *Plugin) Reserve(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	if p.whatIf != nil && p.whatIf.tryout != nil {
		p.whatIf.tryout.seat(pod.UID)
	}
	if _, err := state.Read(probeKey); err != nil && !state.IsPodGroupSchedulingCycle() {
		p.rooms.drop(pod)
	}
	return nil
}

// Unreserve implements fwk.ReservePlugin. In the simulation of a gang it is
// called for every member and means nothing; in the commit it means that a
// member was lost, and before the barrier is open the whole gang with it. After
// that the others are bound, and the pod's room is kept for it: another gang that
// took it now, before the pod is tried again, could leave this one torn for good.
func (p *Plugin) Unreserve(_ context.Context, state fwk.CycleState, pod *v1.Pod, node string) {
	if _, err := state.Read(probeKey); err == nil || state.IsPodGroupSchedulingCycle() {
		return
	}
	if pinned := pinOf(state); pinned != nil && pinned.round.lose(pod) {
		p.rooms.keepForRetry(pod, node)
	}
	p.gate.changed() // what was reserved for it is free
}
