// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	"github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/pkg/placement"
)

const (
	histories = 1000
	events    = 40
)

// TestStateIsAFunctionOfTheObjects lets small clusters live: nodes, pods, gangs
// and disruption budgets come, change and go, pods are assumed and forgotten. What
// was kept from snapshot to snapshot says the same of the cluster as what is made
// anew from the objects that there are.
func TestStateIsAFunctionOfTheObjects(t *testing.T) {
	metrics.Register()
	seen := map[string]int{}
	for seed := range uint64(histories) {
		h := newLife(t, seed)
		for event := range events {
			h.happen()
			if event%4 != 3 {
				h.kept.Build(h.infos()) // a cycle that asks for nothing else
				continue
			}
			kept, anew := h.state(h.cache, h.snapshot, h.kept), h.rebuilt(t)
			if diff := cmp.Diff(anew, kept); diff != "" {
				t.Fatalf("history %d, after event %d of\n%s\n(-rebuilt +kept):\n%s", seed, event, strings.Join(h.told, "\n"), diff)
			}
			kept.count(seen)
		}
		h.end()
	}
	t.Log(seen)
	for _, what := range []string{"units", "spares", "leaving", "draws", "gangs in part", "slices beside running ones", "quiet"} {
		if seen[what] < histories/10 {
			t.Errorf("the histories have %d states with %s: too few to prove anything", seen[what], what)
		}
	}
}

// life is that of a cluster: its objects, and the scheduler's cache that follows them.
type life struct {
	rng      *rand.Rand
	end      context.CancelFunc
	cache    internalcache.Cache
	snapshot *internalcache.Snapshot
	kept     *Builder
	told     []string

	nodes   map[string]*v1.Node
	pods    map[string]*v1.Pod
	groups  map[string]*schedulingv1beta1.PodGroup
	budgets []*policyv1.PodDisruptionBudget
	made    int
}

var historyNow = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newLife(t *testing.T, seed uint64) *life {
	ctx, end := context.WithCancel(t.Context())
	h := &life{
		rng: rand.New(rand.NewPCG(seed, 47)), end: end, cache: internalcache.New(ctx, nil, true, false), snapshot: internalcache.NewEmptySnapshot(),
		kept: NewBuilder(rackLevel), nodes: map[string]*v1.Node{}, pods: map[string]*v1.Pod{}, groups: map[string]*schedulingv1beta1.PodGroup{},
	}
	for range 3 {
		h.addNode()
	}
	for _, name := range []string{"a", "b"} {
		h.editGroup(name)
	}
	return h
}

func (h *life) happen() {
	steps := []func(){
		h.addNode, h.changeNode, h.changeNode, h.removeNode, func() { h.editGroup([]string{"a", "b"}[h.rng.IntN(2)]) }, h.changeBudget,
		h.addPod, h.addPod, h.addPod, h.addPod, h.bind, h.bind, h.bind, h.bind, h.delete, h.delete, h.remove,
	}
	steps[h.rng.IntN(len(steps))]()
}

func (h *life) tell(format string, args ...any) {
	h.told = append(h.told, fmt.Sprintf(format, args...))
}

func (h *life) addNode() {
	h.made++
	n := node(fmt.Sprint("n", h.made), fmt.Sprint("r", h.rng.IntN(3)))
	h.nodes[n.Name] = n
	h.cache.AddNode(klog.Background(), n)
	h.tell("node %s comes", n.Name)
}

func (h *life) changeNode() {
	old := anyOf(h.rng, h.nodes)
	if old == nil {
		return
	}
	n := old.DeepCopy()
	switch h.rng.IntN(4) {
	case 0:
		n.Labels["rack"] = fmt.Sprint("r", h.rng.IntN(3))
	case 1:
		n.Labels[productLabel] = fmt.Sprint("model-", h.rng.IntN(2))
	case 2:
		n.Status.Allocatable["nvidia.com/gpu"] = *resource.NewQuantity(int64(h.rng.IntN(9)), resource.DecimalSI)
	case 3:
		n.Status.Capacity["example.com/nic"] = *resource.NewQuantity(int64(h.rng.IntN(2)), resource.DecimalSI)
		n.Status.Allocatable["example.com/nic"] = n.Status.Capacity["example.com/nic"]
	}
	h.nodes[n.Name] = n
	h.cache.UpdateNode(klog.Background(), old, n)
	h.tell("node %s changes", n.Name)
}

// removeNode takes a node away and its pods after it, as the pod garbage collector does.
func (h *life) removeNode() {
	n := anyOf(h.rng, h.nodes)
	if n == nil || len(h.nodes) == 1 {
		return
	}
	delete(h.nodes, n.Name)
	if err := h.cache.RemoveNode(klog.Background(), n); err != nil {
		panic(err)
	}
	h.tell("node %s goes", n.Name)
	for _, name := range slices.Sorted(maps.Keys(h.pods)) {
		if pod := h.pods[name]; pod.Spec.NodeName == n.Name {
			h.removePod(pod)
		}
	}
}

func (h *life) addPod() {
	h.made++
	gang := []string{"", "a", "b"}[h.rng.IntN(3)]
	pod := podAsking(fmt.Sprint("p", h.made), v1.ResourceList{
		v1.ResourceCPU: *resource.NewQuantity(int64(h.rng.IntN(2)), resource.DecimalSI), "nvidia.com/gpu": *resource.NewQuantity(int64(h.rng.IntN(5)), resource.DecimalSI),
	})
	pod.UID = types.UID(pod.Name)
	pod.Labels = map[string]string{"app": fmt.Sprint(h.rng.IntN(2))}
	pod.Spec.Priority = new(int32(h.rng.IntN(2)))
	if gang != "" {
		pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &gang}
		pod.Spec.Priority = new(int32(0))
		pod.Labels[kubeflowv1.ReplicaTypeLabel] = []string{"ps", "worker"}[h.rng.IntN(2)]
		pod.Labels[kubeflowv1.ReplicaIndexLabel] = fmt.Sprint(h.rng.IntN(8))
	}
	h.pods[pod.Name] = pod
	h.cache.AddPodGroupMember(pod)
	h.tell("pod %s of gang %q comes", pod.Name, gang)
}

// bind assumes a pod and binds it, or fails to; a cycle may come between.
func (h *life) bind() {
	pod, n := h.somePod(func(pod *v1.Pod) bool { return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil }), anyOf(h.rng, h.nodes)
	if pod == nil || n == nil {
		return
	}
	bound := pod.DeepCopy()
	bound.Spec.NodeName = n.Name
	if err := h.cache.AssumePod(klog.Background(), bound); err != nil {
		panic(err)
	}
	if h.rng.IntN(2) == 0 {
		h.kept.Planner(h.kept.Build(h.infos()), RolesOf([]*v1.Pod{pod}))
	}
	if h.rng.IntN(3) == 0 {
		if err := h.cache.ForgetPod(klog.Background(), bound); err != nil {
			panic(err)
		}
		h.tell("pod %s is assumed on %s and forgotten", pod.Name, n.Name)
		return
	}
	bound.Status.StartTime = &metav1.Time{Time: historyNow.Add(-time.Duration(h.rng.IntN(9)) * time.Hour)}
	h.pods[pod.Name] = bound
	if err := h.cache.AddPod(klog.Background(), bound); err != nil {
		panic(err)
	}
	h.tell("pod %s is bound to %s", pod.Name, n.Name)
}

func (h *life) delete() {
	old := h.somePod(func(pod *v1.Pod) bool { return pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil })
	if old == nil {
		return
	}
	pod := old.DeepCopy()
	pod.DeletionTimestamp = &metav1.Time{Time: historyNow.Add(time.Duration(h.rng.IntN(3)-1) * time.Hour)}
	if h.rng.IntN(2) == 0 {
		pod.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler}}
	}
	h.pods[pod.Name] = pod
	if err := h.cache.UpdatePod(klog.Background(), old, pod); err != nil {
		panic(err)
	}
	h.tell("pod %s is being deleted", pod.Name)
}

func (h *life) remove() {
	if pod := h.somePod(func(*v1.Pod) bool { return true }); pod != nil {
		h.removePod(pod)
	}
}

func (h *life) removePod(pod *v1.Pod) {
	delete(h.pods, pod.Name)
	h.tell("pod %s goes", pod.Name)
	if pod.Spec.NodeName == "" {
		h.cache.RemovePodGroupMember(pod)
		return
	}
	if err := h.cache.RemovePod(klog.Background(), pod); err != nil {
		panic(err)
	}
}

func (h *life) editGroup(name string) {
	group := &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", Annotations: map[string]string{
			tutti.SliceSizeAnnotation: fmt.Sprint(1 + h.rng.IntN(3)), tutti.SliceTopologyAnnotation: "rack",
		}},
		Spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
			Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(1 + h.rng.IntN(3))},
		}},
	}
	if h.rng.IntN(2) == 0 {
		group.Annotations[tutti.RoleMinimumsAnnotation] = "ps=1"
	}
	old := h.groups[name]
	h.groups[name] = group
	if old == nil {
		h.cache.AddPodGroup(group)
	} else {
		h.cache.UpdatePodGroup(klog.Background(), old, group)
	}
	h.tell("gang %s needs %d, %v", name, group.Spec.SchedulingPolicy.Gang.MinCount, group.Annotations)
}

func (h *life) changeBudget() {
	h.budgets = h.budgets[:0:0]
	for i := range h.rng.IntN(3) {
		h.budgets = append(h.budgets, &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("b", i), Namespace: "ns"},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint(i)}}},
			Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: int32(h.rng.IntN(3))},
		})
	}
}

func (h *life) somePod(want func(*v1.Pod) bool) *v1.Pod {
	matching := maps.Clone(h.pods)
	maps.DeleteFunc(matching, func(_ string, pod *v1.Pod) bool { return !want(pod) })
	return anyOf(h.rng, matching)
}

// anyOf draws from the map, or returns nil if it is empty.
func anyOf[T any](rng *rand.Rand, from map[string]*T) *T {
	if len(from) == 0 {
		return nil
	}
	keys := slices.Sorted(maps.Keys(from))
	return from[keys[rng.IntN(len(keys))]]
}

func (h *life) infos() []fwk.NodeInfo { return snapshotOf(h.cache, h.snapshot) }

func snapshotOf(cache internalcache.Cache, snapshot *internalcache.Snapshot) []fwk.NodeInfo {
	if err := cache.UpdateSnapshot(klog.Background(), snapshot); err != nil {
		panic(err)
	}
	infos, err := snapshot.NodeInfos().List()
	if err != nil {
		panic(err)
	}
	return infos
}

// rebuilt is the state that a scheduler has which starts now.
func (h *life) rebuilt(t *testing.T) seenState {
	ctx, end := context.WithCancel(t.Context())
	defer end()
	cache := internalcache.New(ctx, nil, true, false)
	for _, n := range h.nodes {
		cache.AddNode(klog.Background(), n)
	}
	for _, group := range h.groups {
		cache.AddPodGroup(group)
	}
	for _, pod := range h.pods {
		if pod.Spec.NodeName == "" {
			cache.AddPodGroupMember(pod)
		} else if err := cache.AddPod(klog.Background(), pod); err != nil {
			t.Fatal(err)
		}
	}
	return h.state(cache, internalcache.NewEmptySnapshot(), NewBuilder(rackLevel))
}

// seenState is what the planner is told of a cluster.
type seenState struct {
	Hosts   []hostState
	Yields  map[int32]bool
	Units   []string // with what they hold and cost
	Leaving []string
	Gangs   map[string]gangState
}

type hostState struct {
	Name, Rack, Kind string
	Free             map[string]int64
}

type gangState struct {
	Gang    Gang
	Running []string
	Waiting []string // by role, with what holds them
}

func (h *life) state(cache internalcache.Cache, snapshot *internalcache.Snapshot, builder *Builder) seenState {
	hosts := builder.Build(snapshotOf(cache, snapshot))
	s := seenState{Yields: map[int32]bool{}, Gangs: map[string]gangState{}}
	roles := []Role{{Request: map[string]int64{"cpu": 1, "pods": 1, "nvidia.com/gpu": 1, "example.com/nic": 1}}}
	for name, group := range h.groups {
		state, err := snapshot.PodGroupStates().Get("ns", name)
		if err != nil {
			panic(err)
		}
		wishes, err := WishesOf(group.Annotations, "", nil)
		if err != nil {
			panic(err)
		}
		constraint, err := ConstraintOf(hosts.Tree, wishes)
		if err != nil {
			panic(err)
		}
		beside := BesideRunning(RolesOf(slices.Collect(maps.Values(state.UnscheduledPods()))), state.ScheduledPods(), hosts.Tree, constraint.SliceSize, constraint.SliceLevel)
		gang, _ := h.gangOf(types.NamespacedName{Name: name})
		seen := gangState{Gang: gang, Running: names(state.ScheduledPods())}
		for _, role := range beside {
			within := ""
			if role.Within != nil {
				within = hosts.Tree.Describe(*role.Within)
			}
			seen.Waiting = append(seen.Waiting, fmt.Sprint(role.Name, role.Request, within, names(role.Pods)))
		}
		s.Gangs[name] = seen
		roles = append(roles, beside...)
	}
	planner := builder.Planner(hosts, roles)
	problem := planner.Problem()
	for host := range hosts.Tree.Hosts() {
		seen := hostState{
			Name: hosts.Tree.HostName(host), Rack: hosts.Tree.Describe(hosts.Tree.DomainOf(host, 1)), Kind: planner.KindOf(host), Free: map[string]int64{},
		}
		for d, name := range problem.Resources {
			seen.Free[name] = problem.Free[host][d]
		}
		s.Hosts = append(s.Hosts, seen)
	}
	for priority := range int32(3) {
		s.Yields[priority] = builder.Yields(hosts, priority)
	}
	own := func(pod *v1.Pod) bool { return pod.Labels["app"] == "own" }
	e := EvictionOf(hosts, []string{"cpu", "nvidia.com/gpu", "pods"}, Preemptor{Priority: 1, Own: own}, h.gangOf, h.budgets, historyNow)
	for v, victim := range e.Victims {
		s.Units = append(s.Units, fmt.Sprintf("%s %v %+v frees %v parts %v draws %v", e.Units[v], names(e.Units[v].Pods), victim.Cost, victim.Frees, victim.Parts, drawsOf(victim)))
	}
	for i, leaving := range e.Leaving {
		s.Leaving = append(s.Leaving, fmt.Sprint(e.LeavingPods[i].Name, leaving))
	}
	return s
}

func (h *life) gangOf(key types.NamespacedName) (Gang, bool) {
	group, ok := h.groups[key.Name]
	if !ok {
		return Gang{}, false
	}
	roles, err := RoleMinimumsOf(group.Annotations)
	if err != nil {
		panic(err)
	}
	return Gang{Minimum: int(group.Spec.SchedulingPolicy.Gang.MinCount), Roles: roles}, true
}

func names(pods []*v1.Pod) []string {
	var list []string
	for _, pod := range pods {
		list = append(list, pod.Name)
	}
	slices.Sort(list)
	return list
}

func drawsOf(victim placement.Victim) []int {
	var list []int
	for _, draw := range victim.Draws {
		list = append(list, draw.Budget.Allowed, draw.Pods)
	}
	return list
}

// count takes note of what the state shows.
func (s seenState) count(seen map[string]int) {
	for what, is := range map[string]bool{
		"units":   len(s.Units) > 0,
		"leaving": len(s.Leaving) > 0,
		"spares":  slices.ContainsFunc(s.Units, func(u string) bool { return strings.Contains(u, "can spare") }),
		"draws":   slices.ContainsFunc(s.Units, func(u string) bool { return !strings.HasSuffix(u, "draws []") }),
		"quiet":   !s.Yields[1],
		"gangs in part": slices.ContainsFunc(slices.Collect(maps.Values(s.Gangs)), func(g gangState) bool {
			return len(g.Running) > 0 && len(g.Waiting) > 0
		}),
		"slices beside running ones": slices.ContainsFunc(slices.Collect(maps.Values(s.Gangs)), func(g gangState) bool {
			return slices.ContainsFunc(g.Waiting, func(w string) bool { return strings.Contains(w, "(slice") })
		}),
	} {
		if is {
			seen[what]++
		}
	}
}
