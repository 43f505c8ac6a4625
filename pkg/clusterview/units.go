// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/tutti-project/tutti/pkg/placement"
)

// Preemptor is who needs room, as far as it decides what may be evicted.
type Preemptor struct {
	Priority int32
	// Own tells pods that are never evicted for it: those of the same job.
	Own func(*v1.Pod) bool
}

// Gang is what a gang that runs must keep to go on.
type Gang struct {
	Minimum int
	Roles   []RoleMinimum
}

// Unit is what can be evicted as one.
type Unit struct {
	Gang types.NamespacedName // Name is empty for a pod that is in no gang
	// Spare: the gang goes on without it.
	Spare bool
	Pods  []*v1.Pod
	// Budgets that have a say over its pods, as in the victim's draws.
	Budgets []*policyv1.PodDisruptionBudget
}

// String names the unit for people.
func (u Unit) String() string {
	switch {
	case u.Gang.Name == "":
		return "pod " + u.Pods[0].Namespace + "/" + u.Pods[0].Name
	case u.Spare:
		return fmt.Sprintf("pod %s that gang %s can spare", u.Pods[0].Name, u.Gang)
	case len(u.Pods) == 1:
		return fmt.Sprintf("gang %s (1 pod)", u.Gang)
	default:
		return fmt.Sprintf("gang %s (%d pods)", u.Gang, len(u.Pods))
	}
}

// Eviction is what may be evicted, and what that would cost: units and victims
// have the same positions.
type Eviction struct {
	Units   []Unit
	Victims []placement.Victim
	// Leaving is what hosts get back from pods that are being deleted already.
	Leaving []placement.Change
	// LeavingPods are these pods.
	LeavingPods []*v1.Pod
}

// overdue is how long after the end of its grace period a pod that is still
// there is taken for stuck: its room is then neither free soon nor to be had by
// another deletion.
const overdue = 30 * time.Second

// EvictionOf lists what may be evicted for the preemptor: gangs of lower
// priority whole, beside the pods that they can spare, the last ranks of their
// largest role; and pods of lower priority that are in no gang. A gang of
// another scheduler is known by its label, and never torn either. gangOf tells
// what a gang must keep; of one that it does not know all pods are needed.
func EvictionOf(hosts Hosts, resources []string, who Preemptor, gangOf func(types.NamespacedName) (Gang, bool), budgets []*policyv1.PodDisruptionBudget, now time.Time) Eviction {
	c := collector{now: now, resources: resources, budgets: budgetsOf(budgets), gangs: map[types.NamespacedName]*gangPods{}}
	for host := range hosts.at {
		// In the order of their names: that of a node's pods is an accident of its past.
		pods := slices.Clone(hosts.Info(host).GetPods())
		slices.SortFunc(pods, func(a, b fwk.PodInfo) int {
			return cmp.Or(strings.Compare(a.GetPod().Namespace, b.GetPod().Namespace), strings.Compare(a.GetPod().Name, b.GetPod().Name))
		})
		for _, info := range pods {
			c.see(info.GetPod(), host, who, func() []int64 { return vectorOf(info.CalculateResource().Resource, resources) })
		}
	}
	for _, key := range c.order {
		g := c.gangs[key]
		if g.own || g.priority >= who.Priority || len(g.members) == 0 {
			continue
		}
		gang, known := gangOf(key)
		if !known {
			gang.Minimum = len(g.members)
		}
		c.addGang(key, g, gang)
	}
	return c.out
}

// collector gathers units, host by host.
type collector struct {
	now       time.Time
	resources []string
	budgets   map[string][]*budget // by namespace
	gangs     map[types.NamespacedName]*gangPods
	order     []types.NamespacedName // of gangs, as first seen
	out       Eviction
}

// resident is a pod on a host.
type resident struct {
	pod  *v1.Pod
	host int
	uses []int64
}

// gangPods is what was seen of one gang.
type gangPods struct {
	own      bool
	priority int32 // the highest of its pods: they should be one
	torn     bool  // pods of it have been chosen for a preemption already
	members  []resident
}

func (c *collector) see(pod *v1.Pod, host int, who Preemptor, uses func() []int64) {
	priority := corev1helpers.PodPriority(pod)
	key, inGang := GangOf(pod)
	own := who.Own(pod)
	var g *gangPods
	if inGang {
		if g = c.gangs[key]; g == nil {
			g = &gangPods{priority: priority}
			c.gangs[key] = g
			c.order = append(c.order, key)
		}
		g.own = g.own || own
		g.priority = max(g.priority, priority)
		g.torn = g.torn || IsPreempted(pod)
	}
	switch {
	case pod.DeletionTimestamp != nil:
		if c.now.Before(pod.DeletionTimestamp.Add(overdue)) {
			c.out.Leaving = append(c.out.Leaving, placement.Change{Host: host, Free: uses()})
			c.out.LeavingPods = append(c.out.LeavingPods, pod)
		}
	case own || priority >= who.Priority || pod.Annotations[v1.MirrorPodAnnotationKey] != "":
	case g != nil:
		g.members = append(g.members, resident{pod, host, uses()})
	default:
		c.add(Unit{}, []resident{{pod, host, uses()}}, placement.Cost{Priority: int(priority)})
	}
}

// GangOf is the gang of a pod of any scheduler.
func GangOf(pod *v1.Pod) (types.NamespacedName, bool) {
	name, ok := GroupOf(pod)
	if !ok {
		name = pod.Labels[v1alpha1.PodGroupLabel]
	}
	return types.NamespacedName{Namespace: pod.Namespace, Name: name}, name != ""
}

// IsPreempted tells a pod that a scheduler has chosen to go for another one.
func IsPreempted(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue && c.Reason == v1.PodReasonPreemptionByScheduler
	})
}

// addGang adds the pods that a gang can spare, and the whole gang. What is left
// of a gang that a preemption has torn, and that cannot go on, is no gang any more:
// the harm is done.
func (c *collector) addGang(key types.NamespacedName, g *gangPods, gang Gang) {
	cost := placement.Cost{Priority: int(g.priority)}
	var parts []int
	for _, spare := range spares(g.members, gang) {
		parts = append(parts, len(c.out.Units))
		c.add(Unit{Gang: key, Spare: true}, []resident{spare}, cost)
	}
	if !g.torn || len(g.members) >= gang.Minimum {
		cost.Gangs = 1
	}
	c.add(Unit{Gang: key}, g.members, cost)
	c.out.Victims[len(c.out.Victims)-1].Parts = parts
}

// spares are the members beyond the gang's minimum, one after the other the last
// of the largest role that is above its own minimum.
func spares(members []resident, gang Gang) []resident {
	byRole := map[string][]resident{}
	for _, m := range members {
		byRole[typeOf(m.pod)] = append(byRole[typeOf(m.pod)], m)
	}
	floors := map[string]int{}
	for _, m := range gang.Roles {
		floors[m.Type] = m.Pods
	}
	roles := slices.Sorted(maps.Keys(byRole))
	for _, role := range roles {
		slices.SortFunc(byRole[role], func(a, b resident) int { return comparePods(a.pod, b.pod) })
	}
	var list []resident
	for range len(members) - gang.Minimum {
		largest := ""
		for _, role := range roles {
			if n := len(byRole[role]); n > floors[role] && (largest == "" && n > 0 || n > len(byRole[largest])) {
				largest = role
			}
		}
		last := len(byRole[largest]) - 1
		if last < floors[largest] || last < 0 {
			break
		}
		list = append(list, byRole[largest][last])
		byRole[largest] = byRole[largest][:last]
	}
	return list
}

// add appends a unit of these pods. The cost given is what does not follow from
// them.
func (c *collector) add(unit Unit, pods []resident, cost placement.Cost) {
	victim := placement.Victim{Cost: cost}
	victim.Cost.Pods = len(pods)
	victim.Cost.Started = c.now.Unix()
	at := map[int]int{}
	seconds := int64(0)
	draws := map[*budget]int{}
	for _, m := range pods {
		unit.Pods = append(unit.Pods, m.pod)
		i, known := at[m.host]
		if !known {
			i = len(victim.Frees)
			at[m.host] = i
			victim.Frees = append(victim.Frees, placement.Change{Host: m.host, Free: make([]int64, len(c.resources))})
		}
		for d, n := range m.uses {
			victim.Frees[i].Free[d] += n
		}
		if start := m.pod.Status.StartTime; start != nil {
			victim.Cost.Started = min(victim.Cost.Started, start.Unix())
			seconds += devicesIn(m.uses, c.resources) * max(0, c.now.Unix()-start.Unix())
		}
		for _, b := range c.budgets[m.pod.Namespace] {
			if b.has(m.pod) {
				draws[b]++
			}
		}
	}
	victim.Cost.Lost = seconds / int64(time.Hour/time.Second)
	for _, b := range slices.SortedFunc(maps.Keys(draws), func(a, b *budget) int { return strings.Compare(a.object.Name, b.object.Name) }) {
		victim.Draws = append(victim.Draws, placement.Draw{Budget: &b.left, Pods: draws[b]})
		unit.Budgets = append(unit.Budgets, b.object)
	}
	victim.Name = unit.String()
	c.out.Units = append(c.out.Units, unit)
	c.out.Victims = append(c.out.Victims, victim)
}

func devicesIn(uses []int64, resources []string) int64 {
	n := int64(0)
	for d, name := range resources {
		if placement.IsDevice(name) {
			n += uses[d]
		}
	}
	return n
}
