// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tutti-project/tutti/pkg/clusterview"
	"github.com/tutti-project/tutti/pkg/placement"
)

// maxProofs bounds how often one plan with victims is played through.
const maxProofs = 128

// contest is somebody who does not fit, and may evict others.
type contest struct {
	what     string // "gang ns/name" or "pod ns/name"
	uid      types.UID
	priority int32
	pods     []*v1.Pod

	hosts   clusterview.Hosts
	roles   []clusterview.Role
	planner *placement.Planner
	problem placement.Problem
	// hopeless tells nodes on which no eviction helps; nil if that is not known.
	hopeless func(node string) bool
	// verify judges the plan with all plugins, on a snapshot without the
	// victims, and names a host that does not take its pod.
	verify func(context.Context, map[types.UID]pin) (host int, ok bool)
	// wake tries the preemptor again: the last victim is gone.
	wake func()
}

// made is room that comes free.
type made struct {
	pins    map[types.UID]pin
	units   []clusterview.Unit // that are evicted now
	message string
	renewed bool // it was known before; nobody more is evicted
}

// makeRoom finds the least costly victims that let the contest's pods start,
// keeps their room and has them evicted. Nil means that there are none. Pods that
// are leaving already are waited for before anybody is evicted.
func (p *Plugin) makeRoom(ctx context.Context, c contest) (*made, error) {
	who := clusterview.Preemptor{Priority: c.priority, Own: ownOf(c.pods)}
	if policy := c.pods[0].Spec.PreemptionPolicy; policy != nil && *policy == v1.PreemptNever {
		who.Priority = math.MinInt32 // nobody is below; who leaves anyway is waited for
	}
	if !p.builder.Yields(c.hosts, who.Priority) {
		return nil, nil
	}
	budgets, err := p.budgets.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("listing disruption budgets: %w", err)
	}
	now := p.gate.clock.Now()
	eviction := clusterview.EvictionOf(c.hosts, c.problem.Resources, who, p.gangOf, budgets, now)
	if len(eviction.Units) == 0 && len(eviction.LeavingPods) == 0 {
		return nil, nil
	}
	free := newChanges(c.problem)
	for _, leaving := range eviction.Leaving {
		left := free.of(leaving.Host)
		for d, n := range leaving.Free {
			left[d] += n
		}
	}
	c.problem.Changes = free.list()
	decision, chosen, err := p.choose(ctx, c, eviction)
	if err != nil || decision.Hosts == nil {
		return nil, err
	}
	pins := c.assign(decision)
	chosen, ok, err := p.prove(ctx, c, eviction, chosen, pins)
	if err != nil || !ok || len(chosen) == 0 && len(eviction.LeavingPods) == 0 {
		return nil, err
	}
	return p.commit(c, eviction, chosen, pins, c.hosts.Tree.Describe(decision.Domain), now), nil
}

// choose asks the planner, and the filters as if all possible victims were gone.
func (p *Plugin) choose(ctx context.Context, c contest, eviction clusterview.Eviction) (decision placement.Decision, chosen []int, err error) {
	all := slices.Clone(eviction.LeavingPods)
	for _, unit := range eviction.Units {
		if !unit.Spare {
			all = append(all, unit.Pods...)
		}
	}
	err = p.without(ctx, all, func() {
		problem := c.problem
		problem.Roles = slices.Clone(problem.Roles)
		for r := range problem.Roles {
			problem.Roles[r].Eligible = p.eligibleWithout(ctx, c, r)
		}
		var e placement.Eviction
		decision, e = c.planner.PlanWithVictims(problem, eviction.Victims)
		chosen = withoutParts(e.Victims, eviction.Victims)
	})
	return decision, chosen, err
}

// withoutParts drops victims that go with another one of the set.
func withoutParts(set []int, victims []placement.Victim) []int {
	return slices.DeleteFunc(slices.Clone(set), func(v int) bool {
		return slices.ContainsFunc(set, func(whole int) bool { return slices.Contains(victims[whole].Parts, v) })
	})
}

func (p *Plugin) eligibleWithout(ctx context.Context, c contest, r int) func(int) (bool, string) {
	nodes := p.handle.MutableSnapshotSharedLister().NodeInfos()
	hopeless := func(host int) string {
		if c.hopeless != nil && c.hopeless(c.hosts.Tree.HostName(host)) {
			return "no eviction helps"
		}
		return ""
	}
	return p.eligible(ctx, c.roles[r], c.hosts.Tree, hopeless, func(host int) (fwk.NodeInfo, error) { return nodes.Get(c.hosts.Tree.HostName(host)) })
}

// prove plays the plan through without the victims alone. What stands on a host
// that refuses its pod for another reason than room, such as a port or an
// anti-affinity, has to go too, the cheapest first, as far as it must.
func (p *Plugin) prove(ctx context.Context, c contest, eviction clusterview.Eviction, chosen []int, pins map[types.UID]pin) ([]int, bool, error) {
	t := trial{left: maxProofs, holds: func(chosen []int) (int, bool, error) {
		return p.holds(ctx, c, eviction, chosen, pins)
	}}
	o, err := t.try(chosen)
	for err == nil && !o.ok && o.host != placement.Unplaced {
		known := len(o.chosen)
		cleared, clearErr := t.clear(o, standingOn(o.host, eviction, o.chosen))
		if clearErr != nil || !cleared.ok && cleared.host == o.host {
			return nil, false, clearErr
		}
		o, err = t.spare(cleared, o.host, known)
	}
	return withoutParts(o.chosen, eviction.Victims), o.ok, err
}

// trial plays plans through, left times at most.
type trial struct {
	left  int
	holds func(chosen []int) (host int, ok bool, err error)
}

// played is what came of playing a plan through without the chosen: ok, or the host
// that refused, Unplaced if none did.
type played struct {
	chosen []int
	host   int
	ok     bool
}

func (t *trial) try(chosen []int) (played, error) {
	t.left--
	host, ok, err := t.holds(chosen)
	return played{chosen, host, ok}, err
}

// clear adds more of those that stand on the host that refused, one by one, until it
// takes its pod. Where it never does, or nothing is left to try, the host stays.
func (t *trial) clear(o played, more []int) (played, error) {
	refused := o.host
	for _, v := range more {
		if t.left <= 0 {
			return played{o.chosen, refused, false}, nil
		}
		var err error
		if o, err = t.try(append(slices.Clone(o.chosen), v)); err != nil || o.ok || o.host != refused {
			return o, err
		}
	}
	return o, nil
}

// spare drops those again that were added after the known ones and without whom refused
// takes its pod as well. The last one did it, so that stays.
func (t *trial) spare(o played, refused, known int) (played, error) {
	for i := len(o.chosen) - 2; i >= known && t.left > 0; i-- {
		fewer, err := t.try(slices.Delete(slices.Clone(o.chosen), i, i+1))
		if err != nil {
			return o, err
		}
		if fewer.ok || !o.ok && fewer.host != refused {
			o = fewer
		}
	}
	return o, nil
}

// standingOn lists the victims with a pod on the host that are not chosen, the
// cheapest first.
func standingOn(host int, eviction clusterview.Eviction, chosen []int) []int {
	var list []int
	for v, victim := range eviction.Victims {
		on := slices.ContainsFunc(victim.Frees, func(f placement.Change) bool { return f.Host == host })
		if on && !slices.Contains(chosen, v) {
			list = append(list, v)
		}
	}
	slices.SortStableFunc(list, func(a, b int) int {
		x, y := eviction.Victims[a].Cost, eviction.Victims[b].Cost
		return cmp.Or(cmp.Compare(x.Priority, y.Priority), cmp.Compare(x.Gangs, y.Gangs), cmp.Compare(x.Lost, y.Lost), cmp.Compare(x.Pods, y.Pods))
	})
	return list
}

func (p *Plugin) holds(ctx context.Context, c contest, eviction clusterview.Eviction, chosen []int, pins map[types.UID]pin) (host int, ok bool, err error) {
	gone := slices.Clone(eviction.LeavingPods)
	for _, v := range withoutParts(chosen, eviction.Victims) {
		gone = append(gone, eviction.Units[v].Pods...)
	}
	err = p.without(ctx, gone, func() { host, ok = c.verify(ctx, pins) })
	return host, ok, err
}

// without does something on a copy of the snapshot that lacks these pods.
func (p *Plugin) without(ctx context.Context, pods []*v1.Pod, do func()) error {
	return p.onCopy(func(snapshot fwk.MutableSnapshotSharedLister) error {
		for _, pod := range pods {
			if err := snapshot.RemovePod(klog.FromContext(ctx), pod, pod.Spec.NodeName); err != nil {
				return fmt.Errorf("taking pod %s/%s out of the copy of the snapshot: %w", pod.Namespace, pod.Name, err)
			}
		}
		do()
		return nil
	})
}

// onCopy works on a copy of the snapshot, which is dropped afterwards.
func (p *Plugin) onCopy(work func(fwk.MutableSnapshotSharedLister) error) error {
	snapshot := p.handle.MutableSnapshotSharedLister()
	if err := snapshot.StartMutations(); err != nil {
		return fmt.Errorf("copying the snapshot: %w", err)
	}
	err := work(snapshot)
	if end := snapshot.EndMutations(); end != nil && err == nil {
		err = fmt.Errorf("dropping the copy of the snapshot: %w", end)
	}
	return err
}

// commit keeps the room and starts the evictions.
func (p *Plugin) commit(c contest, eviction clusterview.Eviction, chosen []int, pins map[types.UID]pin, domain string, now time.Time) *made {
	m := &made{pins: pins, renewed: p.evictor.busy(c.uid) && len(chosen) == 0}
	until := now.Add(keepFor)
	for _, pod := range eviction.LeavingPods {
		if end := pod.DeletionTimestamp.Add(keepFor); end.After(until) {
			until = end
		}
	}
	var victims []*v1.Pod
	for _, v := range chosen {
		unit := eviction.Units[v]
		m.units = append(m.units, unit)
		victims = append(victims, unit.Pods...)
		for _, pod := range unit.Pods {
			if grace := pod.Spec.TerminationGracePeriodSeconds; grace != nil {
				if end := now.Add(time.Duration(*grace)*time.Second + keepFor); end.After(until) {
					until = end
				}
			}
		}
	}
	nodes := map[types.UID]string{}
	for _, pod := range c.pods {
		if pin, ok := pins[pod.UID]; ok {
			p.rooms.keep(pod, pin.node, until)
			nodes[pod.UID] = pin.node
		}
	}
	if len(chosen) == 0 {
		m.message = "waiting in " + domain + " until pods that are being deleted there are gone"
		return m
	}
	m.message = fmt.Sprintf("evicting %s to start in %s", inWords(eviction, chosen), domain)
	if violated := eviction.Violated(chosen); len(violated) > 0 {
		m.message += "; this goes beyond disruption budget " + strings.Join(violated, ", ") + ", there is no other way"
	}
	p.evictor.evict(order{preemptor: c.what, uid: c.uid, priority: c.priority, pods: c.pods, units: m.units, victims: victims, nodes: nodes, wake: c.wake, until: until})
	return m
}

// namedVictims is how many victims a verdict names: a condition's text has a limit, and
// its reader too.
const namedVictims = 20

func inWords(eviction clusterview.Eviction, victims []int) string {
	var names []string
	for _, v := range victims[:min(len(victims), namedVictims)] {
		names = append(names, fmt.Sprintf("%s of priority %d", eviction.Units[v], eviction.Victims[v].Cost.Priority))
	}
	if more := len(victims) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

func (c contest) assign(decision placement.Decision) map[types.UID]pin {
	return gathered{hosts: c.hosts, roles: c.roles}.assign(decision)
}

// gangOf is what a gang must keep, as the snapshot has it.
func (p *Plugin) gangOf(key types.NamespacedName) (clusterview.Gang, bool) {
	group, err := p.handle.SnapshotSharedLister().PodGroups().Get(key.Namespace, key.Name)
	if err != nil {
		return clusterview.Gang{}, false
	}
	roles, err := clusterview.RoleMinimumsOf(group.Annotations)
	if err != nil {
		return clusterview.Gang{}, false
	}
	return clusterview.Gang{Minimum: quorumOf(group), Roles: roles}, true
}
