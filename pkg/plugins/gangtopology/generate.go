// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tutti-project/tutti/pkg/clusterview"
	"github.com/tutti-project/tutti/pkg/placement"
	"github.com/tutti-project/tutti/pkg/topology"
)

// planKey is where the plan lies in the state of a pod-group cycle.
const planKey fwk.StateKey = Name + "/plan"

// beingEvicted is why a gang is not planned, and nothing of it bound.
const beingEvicted = "the gang is being evicted: it is planned when all of it has gone"

// noRoomForExtras is all that is said of them: the gang's verdict is about its
// minimum.
const noRoomForExtras = "no room for pods beyond the gang's minimum"

// plan is a gang's decision by pod.
type plan struct {
	pins  map[types.UID]pin
	round *round
	// extras: the gang's minimum runs already.
	extras bool
	// tryout is set in a what-if.
	tryout *tryout
}

// Clone implements fwk.StateData; a plan is never changed.
func (p *plan) Clone() fwk.StateData { return p }

// GeneratePlacements implements fwk.PlacementGeneratePlugin: it plans the gang
// and returns exactly one placement, the nodes of the plan, or the reason why
// there is none.
func (p *Plugin) GeneratePlacements(ctx context.Context, state fwk.PodGroupCycleState, group fwk.PodGroupInfo, parent *fwk.Placement) (*fwk.GeneratePlacementsResult, *fwk.Status) {
	if p.whatIf != nil {
		state.Write(planKey, p.whatIf)
		return &fwk.GeneratePlacementsResult{Placements: []*fwk.Placement{{Name: "what if", Nodes: parent.Nodes}}}, nil
	}
	begin := p.gate.clock.Now()
	g, err := p.gather(ctx, group, parent.Nodes)
	if p.rounds.of(g.key) != nil {
		p.meter.attempted(outcomeNotOver)
		state.Write(refusalKey, &refusal{waits: true})
		return nil, g.unschedulable(beingReady)
	}
	if err != nil {
		p.meter.attempted(outcomeInvalid)
		return nil, p.refuse(g, err.Error())
	}
	if short := g.short(); short > 0 {
		p.meter.attempted(outcomeNotQueued)
		state.Write(refusalKey, &refusal{waits: true})
		// A race with the last member's event: the gate wakes the gang again.
		return nil, g.unschedulable(fmt.Sprintf("%d of the gang's pods are not queued yet", short))
	}
	if why := p.release(g); why != "" {
		p.meter.attempted(outcomeReleased)
		return nil, p.refuse(g, why)
	}
	if p.remains.goes(g.key) {
		p.meter.attempted(outcomeReleased)
		state.Write(refusalKey, &refusal{waits: true})
		return nil, g.unschedulable(beingEvicted)
	}
	if torn, ok := p.torn(g); ok {
		p.meter.attempted(outcomeTorn)
		state.Write(refusalKey, &refusal{waits: true})
		return nil, g.unschedulable(fmt.Sprintf("waiting until gang %s, of which a part runs, is completed", torn))
	}
	decision, placed, reason, err := p.settle(ctx, &g, group.GetUnscheduledPods())
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	p.meter.planned(p.gate.clock.Since(begin), decision.Hosts != nil)
	klog.FromContext(ctx).V(4).Info("Planned gang", "podGroup", klog.KRef(g.key.Namespace, g.key.Name),
		"placedPods", len(placed), "unscheduledPods", len(group.GetUnscheduledPods()))
	if decision.Hosts == nil && g.needs() {
		state.Write(refusalKey, &refusal{g: g, reason: reason}) // PodGroupPostFilter goes on
		return nil, g.unschedulable(reason)
	}
	if len(placed) == 0 {
		p.meter.attempted(outcomeNoExtras)
		p.gate.refuse(g.key, p.needsOf(g)) // the minimum runs; the extras find no room
		p.report.runs(g.group, tally{placed: g.running, all: g.running + g.waiting()}, g.hosts.Tree.Describe(g.enclosing(nil)))
		return nil, g.unschedulable(noRoomForExtras)
	}
	domain := g.hosts.Tree.Describe(g.enclosing(placed))
	round := p.newRound(g, domain, placed)
	state.Write(planKey, &plan{pins: placed, round: round, extras: !g.needs()})
	nodes := parent.Nodes // pods far away count too where pods mind each other
	if !g.intricate {
		nodes = g.nodes(placed)
	}
	return &fwk.GeneratePlacementsResult{Placements: []*fwk.Placement{{Name: domain, Nodes: nodes}}}, nil
}

// torn finds another gang of which a part runs: bindings failed, or this
// process was restarted amid them, or members were lost. A gang that has not
// begun waits for it, or it could take the room that the other one needs to be
// whole again. That holds for a gang of higher priority too as long as the other one
// is starting: it is whole in a moment, and can then be evicted whole, for better
// reason. Once the planner has refused it, or after tornPatience, nobody waits
// for it any more, nor for what a preemption has left of one. O(gangs).
func (p *Plugin) torn(g gathered) (types.NamespacedName, bool) {
	if g.running > 0 {
		return types.NamespacedName{}, false
	}
	snapshot := p.handle.SnapshotSharedLister()
	for _, key := range p.gate.waiting(g.key) {
		state, err := snapshot.PodGroupStates().Get(key.Namespace, key.Name)
		if err != nil || !isInPart(state) { // most have not begun: no need to look further
			continue
		}
		group, err := snapshot.PodGroups().Get(key.Namespace, key.Name)
		if err != nil || p.remains.goes(key) || p.rounds.holdRoom(key) {
			continue
		}
		if p.holdsBack(key, group, state, priorityOf(g.group)) {
			return key, true
		}
	}
	return types.NamespacedName{}, false
}

// isInPart tells whether some pods of a gang have nodes, and some have none. O(1).
func isInPart(state fwk.PodGroupState) bool {
	scheduled := state.ScheduledPodsCount()
	return scheduled > 0 && scheduled < state.AllPodsCount()
}

// holdsBack tells whether a gang of this priority that has not begun waits for this one,
// of which a part has nodes.
func (p *Plugin) holdsBack(key types.NamespacedName, group *schedulingv1beta1.PodGroup, state fwk.PodGroupState, priority int32) bool {
	on, quorum := live(state.ScheduledPods()), quorumOf(group)
	running, waiting, now := len(on), state.UnscheduledPods(), p.gate.clock.Now()
	return 0 < running && running < quorum && running+len(waiting) >= quorum &&
		(priorityOf(group) >= priority || starting(on, waiting, quorum, now) && !p.gate.lost(key)) &&
		now.Sub(tornSince(on, waiting, now)) < tornPatience && !p.remains.has(key)
}

// starting tells whether a gang that runs in part has just begun, and has never been
// whole: enough of those that wait were there when the first of those that run was
// bound, and the last one was bound within startsFor. A member that was lost is made
// anew after that, but the API tells seconds only; so the gate is asked as well
// whether it has seen one go.
func starting(running []*v1.Pod, waiting map[string]*v1.Pod, quorum int, now time.Time) bool {
	first, last := now, time.Time{}
	for _, pod := range running {
		at := boundAt(pod, now)
		if at.Before(first) {
			first = at
		}
		if at.After(last) {
			last = at
		}
	}
	members := len(running)
	for _, pod := range waiting {
		if !pod.CreationTimestamp.After(first) {
			members++
		}
	}
	return members >= quorum && now.Sub(last) < startsFor
}

// tornSince is since when a gang runs in part, as its pods say: since the last one
// was bound or, if that was later, since the first of those that wait was created.
func tornSince(running []*v1.Pod, waiting map[string]*v1.Pod, now time.Time) time.Time {
	var bound, created time.Time
	for _, pod := range running {
		if at := boundAt(pod, now); at.After(bound) {
			bound = at
		}
	}
	for _, pod := range waiting {
		if at := pod.CreationTimestamp.Time; created.IsZero() || at.Before(created) {
			created = at
		}
	}
	if created.After(bound) {
		return created
	}
	return bound
}

// boundAt is when the pod was bound; one that is only about to be is bound now.
func boundAt(pod *v1.Pod, now time.Time) time.Time {
	if _, c := podutil.GetPodCondition(&pod.Status, v1.PodScheduled); c != nil && c.Status == v1.ConditionTrue {
		return c.LastTransitionTime.Time
	}
	if pod.Status.StartTime != nil {
		return pod.Status.StartTime.Time
	}
	return now
}

// refuse keeps the gang out until the cluster changes and says why.
func (p *Plugin) refuse(g gathered, reason string) *fwk.Status {
	late := p.gate.refuse(g.key, p.needsOf(g))
	p.report.refused(g.group, late+reason)
	return g.unschedulable(reason)
}

// unschedulable is a "no" that the engine takes for a verdict on the pods, not
// for an error of its own, which it would log for each of them.
func (g gathered) unschedulable(reason string) *fwk.Status {
	return fwk.NewStatus(fwk.Unschedulable).WithError(&framework.FitError{
		Pod:         g.roles[0].Pods[0],
		NumAllNodes: g.hosts.Tree.Hosts(),
		Diagnosis: framework.Diagnosis{
			NodeToStatus:         framework.NewDefaultNodeToStatus(),
			UnschedulablePlugins: sets.New(Name),
			PreFilterMsg:         reason,
		},
	})
}

// assign names the host of every placed pod.
func (g gathered) assign(decision placement.Decision) map[types.UID]pin {
	placed := map[types.UID]pin{}
	for r, hosts := range decision.Hosts {
		for rank, host := range hosts {
			if host != placement.Unplaced {
				placed[g.roles[r].Pods[rank].UID] = pin{node: g.hosts.Tree.HostName(host), host: host, role: r}
			}
		}
	}
	return placed
}

// enclosing is the narrowest domain around all placed and running pods.
func (g gathered) enclosing(placed map[types.UID]pin) int {
	first, last := g.hosts.Tree.Hosts(), -1
	for _, host := range g.problem.Anchors {
		first, last = min(first, host), max(last, host)
	}
	for _, pin := range placed {
		first, last = min(first, pin.host), max(last, pin.host)
	}
	for level := len(g.hosts.Tree.Levels()) - 1; level > 0 && last >= 0; level-- {
		if domain := g.hosts.Tree.DomainOf(first, level); domain == g.hosts.Tree.DomainOf(last, level) {
			return domain
		}
	}
	return g.hosts.Tree.Domains(0)[0].ID
}

// nodes are the snapshot's own node infos of a plan, in tree order: the engine
// demands the same instances.
func (g gathered) nodes(placed map[types.UID]pin) []fwk.NodeInfo {
	hosts := make([]int, 0, len(placed))
	for _, pin := range placed {
		hosts = append(hosts, pin.host)
	}
	slices.Sort(hosts)
	hosts = slices.Compact(hosts)
	nodes := make([]fwk.NodeInfo, len(hosts))
	for i, host := range hosts {
		nodes[i] = g.hosts.Info(host)
	}
	return nodes
}

// elsewhere is why a role that is held to a domain may not be on a host.
const elsewhere = "not where the pod's slice runs"

// eligible asks the profile's own PreFilter and Filter plugins whether a pod
// of a role may stand on a host, lazily: PreFilter runs at the first question.
// Siblings are not counted here; the rehearsal does that. barred says beforehand
// why a host will not do, or nothing; infoOf is the host's node to ask about.
func (p *Plugin) eligible(ctx context.Context, role clusterview.Role, tree *topology.Tree, barred func(int) string, infoOf func(int) (fwk.NodeInfo, error)) func(int) (bool, string) {
	var probe *probe
	return func(host int) (bool, string) {
		if !role.MayBeIn(tree, host) {
			return false, elsewhere
		}
		if why := cmp.Or(barred(host), p.guard.avoids(tree.HostName(host))); why != "" {
			return false, why
		}
		if probe == nil {
			probe = p.newProbe(ctx, role.Pods[0])
		}
		info, err := infoOf(host)
		if err != nil {
			return false, err.Error()
		}
		return probe.ask(ctx, info)
	}
}
