// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tutti-project/tutti/pkg/clusterview"
	"github.com/tutti-project/tutti/pkg/placement"
)

// refusalKey is where a gang that does not fit lies in the state of its cycle.
const refusalKey fwk.StateKey = Name + "/refusal"

// refusal is a gang of which not even the minimum fits, and why; or one that was
// not planned at all, because it waits for something else than room.
type refusal struct {
	g      gathered
	reason string
	waits  bool
}

// Clone implements fwk.StateData; a refusal is never changed.
func (r *refusal) Clone() fwk.StateData { return r }

// PodGroupPostFilter implements fwk.PodGroupPostFilterPlugin: it looks for the
// least that can be evicted for a gang whose minimum does not fit. It is called
// after every cycle that placed nothing. Pods beyond the minimum evict nobody.
func (p *Plugin) PodGroupPostFilter(ctx context.Context, state fwk.PodGroupCycleState, info fwk.PodGroupInfo, schedule fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	if data, err := state.Read(planKey); err == nil {
		if data.(*plan).extras {
			p.meter.attempted(outcomeNoExtras)
			p.gate.refuse(types.NamespacedName{Namespace: info.GetNamespace(), Name: info.GetName()}, anyHelp)
			return p.giveUp(info.GetUnscheduledPods(), noRoomForExtras)
		}
		p.meter.attempted(outcomeTogether)
		p.gate.refuse(types.NamespacedName{Namespace: info.GetNamespace(), Name: info.GetName()}, anyHelp)
		p.report.refused(info.GetPodGroup(), "planned in "+data.(*plan).round.domain+
			", but other filters refuse some of the pods together: the condition PodScheduled of each pod says why")
	}
	data, err := state.Read(refusalKey)
	if err != nil {
		return p.giveUp(info.GetUnscheduledPods(), "no pods are evicted for a gang that cannot be tried")
	}
	no := data.(*refusal)
	if no.waits { // and keeps the room that it may have
		return nil, fwk.NewStatus(fwk.Unschedulable, "no pods are evicted for a gang that waits for something else than room")
	}
	pods := info.GetUnscheduledPods()
	made, err := p.makeRoom(ctx, contest{
		what: "gang " + no.g.key.String(), uid: no.g.group.UID, priority: priorityOf(no.g.group), pods: pods,
		hosts: no.g.hosts, roles: no.g.roles, problem: no.g.problem, planner: no.g.planner,
		wake: func() { p.gate.hurry(no.g.key) },
		verify: func(ctx context.Context, pins map[types.UID]pin) (int, bool) {
			return p.verifyGang(ctx, pins, schedule)
		},
	})
	if err != nil {
		klog.FromContext(ctx).Error(err, "Could not look for pods to evict", "podGroup", klog.KRef(no.g.key.Namespace, no.g.key.Name))
	}
	needs := p.needsOf(no.g)
	if made != nil {
		needs.alike = "" // room is made for this one alone
	}
	late := p.gate.refuse(no.g.key, needs)
	if made == nil {
		p.meter.attempted(outcomeNoRoom)
		p.report.refused(no.g.group, late+no.reason+p.move(ctx, no.g, pods))
		return p.giveUp(pods, "no pods can be evicted that would let the gang start")
	}
	p.meter.attempted(outcomePreempting)
	if !made.renewed {
		p.report.preempting(no.g.group, made.message)
	}
	result := &fwk.PodGroupPostFilterResult{NominatingInfos: map[types.NamespacedName]*fwk.NominatingInfo{}}
	for _, pod := range pods {
		result.NominatingInfos[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] =
			&fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: made.pins[pod.UID].node}
	}
	return result, fwk.NewStatus(fwk.Success, made.message)
}

// giveUp takes back what room is kept for the pods. The engine leaves nominated
// nodes as they are unless this succeeds and says otherwise.
func (p *Plugin) giveUp(pods []*v1.Pod, why string) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	had := p.rooms.drop(pods...)
	result := &fwk.PodGroupPostFilterResult{NominatingInfos: map[types.NamespacedName]*fwk.NominatingInfo{}}
	for _, pod := range pods {
		had = had || pod.Status.NominatedNodeName != ""
		result.NominatingInfos[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride}
	}
	if !had {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
	}
	p.gate.changed()
	return result, fwk.NewStatus(fwk.Success, why)
}

// verifyGang lets the engine play the plan through on the what-if, with every
// plugin of the profile; it names the host of the first pod that is refused.
func (p *Plugin) verifyGang(ctx context.Context, pins map[types.UID]pin, schedule fwk.PodGroupSchedulingFunc) (int, bool) {
	tried := &tryout{}
	p.whatIf = &plan{pins: pins, tryout: tried}
	defer func() { p.whatIf = nil }()
	if _, status := schedule(ctx); status.IsSuccess() {
		return 0, true
	}
	if refused, ok := pins[tried.first()]; ok {
		return refused.host, false
	}
	return placement.Unplaced, false
}

// tryout follows the engine through a what-if, pod by pod: its answer tells only
// of the pods that found their place.
type tryout struct {
	trying, refused types.UID
}

// begin is called when the engine looks at a pod.
func (t *tryout) begin(pod types.UID) {
	t.refused = t.first()
	t.trying = pod
}

// seat is called when the pod has its place.
func (t *tryout) seat(pod types.UID) {
	if t.trying == pod {
		t.trying = ""
	}
}

// first is the first pod that found none, or empty.
func (t *tryout) first() types.UID { return cmp.Or(t.refused, t.trying) }

// PostFilter implements fwk.PostFilterPlugin, in the place of DefaultPreemption:
// a single pod too evicts gangs whole, what they can spare, or single pods.
func (p *Plugin) PostFilter(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, nodes fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if _, inGang := clusterview.GroupOf(pod); inGang {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	infos, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, fwk.AsStatus(fmt.Errorf("reading the nodes: %w", err))
	}
	c := contest{
		what: "pod " + pod.Namespace + "/" + pod.Name, uid: pod.UID, priority: corev1helpers.PodPriority(pod), pods: []*v1.Pod{pod},
		hosts: p.builder.Build(infos), roles: clusterview.RolesOf([]*v1.Pod{pod}),
		wake: func() {
			p.handle.Activate(klog.FromContext(ctx), map[string]*v1.Pod{pod.Namespace + "/" + pod.Name: pod})
		},
		hopeless: func(node string) bool { return nodes.Get(node).Code() == fwk.UnschedulableAndUnresolvable },
		verify: func(ctx context.Context, pins map[types.UID]pin) (int, bool) {
			pin := pins[pod.UID]
			info, err := p.handle.MutableSnapshotSharedLister().NodeInfos().Get(pin.node)
			if err != nil {
				return pin.host, false
			}
			ok, _ := p.newProbe(ctx, pod).ask(ctx, info)
			return pin.host, ok
		},
	}
	c.planner = p.builder.Planner(c.hosts, c.roles)
	c.problem = c.planner.Problem()
	c.problem.Roles = []placement.Role{{Name: c.roles[0].Name, Pods: 1, Minimum: 1, Request: c.roles[0].Vector(c.problem.Resources)}}
	c.problem.Changes = p.rooms.beside(c.problem, c.priority, func(other *v1.Pod) bool { return other.UID == pod.UID })
	made, err := p.makeRoom(ctx, c)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	if made == nil {
		p.rooms.drop(pod)
		return framework.NewPostFilterResultWithNominatedNode(""), fwk.NewStatus(fwk.Unschedulable, "preemption: nothing can be evicted that would make room")
	}
	return framework.NewPostFilterResultWithNominatedNode(made.pins[pod.UID].node), fwk.NewStatus(fwk.Success, made.message)
}

// ownOf tells the pods of the same gang or the same owner.
func ownOf(pods []*v1.Pod) func(*v1.Pod) bool {
	first := pods[0]
	name, inGang := clusterview.GroupOf(first)
	owner := controllerOf(first)
	return func(pod *v1.Pod) bool {
		if pod.Namespace != first.Namespace {
			return false
		}
		other, theirs := clusterview.GroupOf(pod)
		return inGang && theirs && other == name || owner != "" && controllerOf(pod) == owner
	}
}

func controllerOf(pod *v1.Pod) types.UID {
	i := slices.IndexFunc(pod.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Controller != nil && *o.Controller })
	if i < 0 {
		return ""
	}
	return pod.OwnerReferences[i].UID
}
