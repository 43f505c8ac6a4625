// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	"github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/pkg/clusterview"
	"github.com/tutti-project/tutti/pkg/placement"
	"github.com/tutti-project/tutti/pkg/snapshot"
	"github.com/tutti-project/tutti/pkg/topology"
)

// member is a pod with the index of its gang.
type member struct {
	pod  *v1.Pod
	gang int
}

// gathered is a gang while its pods are counted.
type gathered struct {
	gang  Gang
	pods  []*v1.Pod
	group *unstructured.Unstructured
	job   *unstructured.Unstructured // if there are no pods yet
}

// members are the gangs and their pods by node.
type members struct {
	all []*gathered
	on  map[string][]member
}

func keyOf(pod *v1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// gather sorts the pods that have not ended into gangs. Pods in no group are
// shown with their controller, if they ask for a device.
func gather(view *View) *members {
	groups := snapshot.GroupsOf(view.Groups)
	jobs := byKey(view.Jobs)
	found := map[Reference]*gathered{}
	of := func(ref Reference) *gathered {
		g := found[ref]
		if g == nil {
			g = &gathered{gang: Gang{Reference: ref}}
			found[ref] = g
		}
		return g
	}
	ended := map[types.NamespacedName]bool{} // groups of which pods have ended
	for _, pod := range view.Pods {
		key, _ := clusterview.GangOf(pod)
		if pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
			ended[key] = true
			continue
		}
		if ref, ok := ownerOf(pod, key, jobs); ok {
			g := of(ref)
			g.pods = append(g.pods, pod)
		}
	}
	for key, group := range groups {
		ref := groupReference(key, jobs)
		if g, ok := found[ref]; ok || !ended[key] && jobs[key] == nil {
			if !ok {
				g = of(ref)
			}
			g.describe(group)
		}
	}
	for key, job := range jobs {
		ref := Reference{Kind: kubeflowv1.TFJobKind, Namespace: key.Namespace, Name: key.Name}
		if found[ref] != nil || !hasEnded(job) {
			of(ref).describeJob(job)
		}
	}
	return collect(found)
}

// collect puts the gangs in order and their pods on nodes: those that wait first,
// then by priority and age, as the scheduler takes them.
func collect(found map[Reference]*gathered) *members {
	m := &members{on: map[string][]member{}}
	for _, g := range found {
		g.count()
		m.all = append(m.all, g)
	}
	slices.SortFunc(m.all, func(a, b *gathered) int {
		return cmp.Or(
			cmp.Compare(rankOf(a.gang.State), rankOf(b.gang.State)),
			cmp.Compare(b.gang.Priority, a.gang.Priority),
			cmp.Compare(a.gang.Since, b.gang.Since),
			topology.CompareNatural(a.gang.Namespace+"/"+a.gang.Name, b.gang.Namespace+"/"+b.gang.Name),
			cmp.Compare(a.gang.Kind, b.gang.Kind),
		)
	})
	for i, g := range m.all {
		slices.SortFunc(g.pods, func(a, b *v1.Pod) int { return topology.CompareNatural(a.Name, b.Name) })
		for _, pod := range g.pods {
			if node := pod.Spec.NodeName; node != "" {
				m.on[node] = append(m.on[node], member{pod: pod, gang: i})
			}
		}
	}
	return m
}

func rankOf(state string) int {
	return slices.Index([]string{stateWaiting, stateSuspended, stateStarting, stateRunning}, state)
}

func byKey(objects []*unstructured.Unstructured) map[types.NamespacedName]*unstructured.Unstructured {
	found := make(map[types.NamespacedName]*unstructured.Unstructured, len(objects))
	for _, o := range objects {
		found[snapshot.KeyOf(o)] = o
	}
	return found
}

// groupReference calls a group by its job, if it is a job's.
func groupReference(key types.NamespacedName, jobs map[types.NamespacedName]*unstructured.Unstructured) Reference {
	ref := Reference{Kind: "PodGroup", Namespace: key.Namespace, Name: key.Name}
	if jobs[key] != nil {
		ref.Kind = kubeflowv1.TFJobKind
	}
	return ref
}

func ownerOf(pod *v1.Pod, group types.NamespacedName, jobs map[types.NamespacedName]*unstructured.Unstructured) (Reference, bool) {
	if group.Name != "" {
		return groupReference(group, jobs), true
	}
	if !asksForDevices(pod) {
		return Reference{}, false
	}
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return Reference{Kind: owner.Kind, Namespace: pod.Namespace, Name: owner.Name}, true
	}
	return Reference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name}, true
}

func asksForDevices(pod *v1.Pod) bool {
	for name := range clusterview.RequestOf(pod) {
		if placement.IsDevice(name) {
			return true
		}
	}
	return false
}

// describe takes what a group says of its gang.
func (g *gathered) describe(group *unstructured.Unstructured) {
	g.group = group
	g.gang.Since = stamp(group.GetCreationTimestamp())
	g.gang.Minimum, _ = snapshot.MinimumOf(group)
	g.gang.Wishes = wishesOf(group)
	if level := snapshot.ConstraintOf(group); level != "" {
		if g.gang.Wishes == nil {
			g.gang.Wishes = map[string]string{}
		}
		g.gang.Wishes[tutti.RequiredTopologyAnnotation] = level
	}
}

func (g *gathered) describeJob(job *unstructured.Unstructured) {
	if suspended, _, _ := unstructured.NestedBool(job.Object, "spec", "runPolicy", "suspend"); suspended {
		g.gang.State = stateSuspended
		g.gang.Message = "spec.runPolicy.suspend is true: a queue in front of it or its user holds it"
	}
	if g.group == nil {
		g.gang.Since = stamp(job.GetCreationTimestamp())
		g.gang.Wishes = wishesOf(job)
	}
	if len(g.pods) == 0 {
		g.job = job
	}
}

// stamp is a time in RFC 3339, empty for none.
func stamp(t metav1.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func wishesOf(o *unstructured.Unstructured) map[string]string {
	var wishes map[string]string
	for _, key := range tutti.GangAnnotations {
		if value, ok := o.GetAnnotations()[key]; ok {
			if wishes == nil {
				wishes = map[string]string{}
			}
			wishes[key] = value
		}
	}
	return wishes
}

func hasEnded(job *unstructured.Unstructured) bool {
	for _, end := range []kubeflowv1.JobConditionType{kubeflowv1.JobSucceeded, kubeflowv1.JobFailed} {
		if c, ok := snapshot.ConditionOf(job, string(end)); ok && c.Status == metav1.ConditionTrue {
			return true
		}
	}
	return false
}

// count adds the pods up and finds the verdict.
func (g *gathered) count() {
	gang := &g.gang
	var refused *v1.Pod
	for _, pod := range g.pods {
		gang.Pods++
		if pod.Spec.Priority != nil {
			gang.Priority = *pod.Spec.Priority
		}
		if gang.Since == "" {
			gang.Since = stamp(pod.CreationTimestamp)
		}
		switch {
		case pod.Spec.NodeName == "":
			if refused == nil {
				refused = pod
			}
		case pod.Status.Phase == v1.PodRunning:
			gang.Running++
			gang.Bound++
		default:
			gang.Bound++
		}
	}
	if gang.State == "" {
		gang.State = stateOf(*gang)
	}
	g.judge(refused)
}

func stateOf(gang Gang) string {
	switch {
	case gang.Bound == 0 || int64(gang.Bound) < gang.Minimum && gang.Bound < gang.Pods:
		return stateWaiting
	case gang.Running < gang.Bound:
		return stateStarting
	}
	return stateRunning
}

// judge takes the verdict from the group, or else from a pod that waits.
func (g *gathered) judge(refused *v1.Pod) {
	if g.group != nil {
		if c, ok := snapshot.ConditionOf(g.group, tutti.GangPlacedCondition); ok {
			g.gang.Reason = c.Reason
			if g.gang.Message == "" {
				g.gang.Message = c.Message
			}
			return
		}
	}
	if refused != nil && g.gang.Message == "" {
		for _, c := range refused.Status.Conditions {
			if c.Type == v1.PodScheduled && c.Status != v1.ConditionTrue {
				g.gang.Reason, g.gang.Message = c.Reason, c.Message
			}
		}
	}
	if g.gang.Pods == 0 && g.gang.Message == "" {
		g.gang.Message = "it has no pods yet"
	}
}

// gangs finishes them: what they ask for, and where they are.
func (m *members) gangs(resource string, tree *topology.Tree) []Gang {
	gangs := make([]Gang, len(m.all))
	for i, g := range m.all {
		if g.job != nil {
			g.gang.Pods, g.gang.GPUs = asksOf(g.job, resource)
		}
		pods := map[int]int{}
		for _, pod := range g.pods {
			g.gang.GPUs += clusterview.RequestOf(pod)[resource]
			if host, ok := tree.HostIndex(pod.Spec.NodeName); ok {
				pods[host]++
			}
		}
		for host, count := range pods {
			g.gang.On = append(g.gang.On, [2]int{host, count})
		}
		slices.SortFunc(g.gang.On, func(a, b [2]int) int { return cmp.Compare(a[0], b[0]) })
		gangs[i] = g.gang
	}
	return gangs
}
