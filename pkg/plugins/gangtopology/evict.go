// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/tutti-project/tutti/pkg/clusterview"
)

const (
	// evictionsInFlight bounds the pods of one preemptor that are evicted at a time.
	evictionsInFlight = 16
	// evictionPatience bounds the requests of one order. What is left then is
	// decided anew.
	evictionPatience = time.Minute
	// After an order of which a request was refused the next one for the same
	// preemptor waits firstEvictRetry, then twice that, up to lastEvictRetry.
	firstEvictRetry = 500 * time.Millisecond
	lastEvictRetry  = 30 * time.Second
	// promiseRoom bounds how long the first victim stays until the API has that
	// its room is kept for the preemptor.
	promiseRoom  = 5 * time.Second
	promiseCheck = 5 * time.Millisecond
)

// evictor deletes victims, in two steps: all of them are marked with the
// condition that says why, and only then does the first one go. Before that the
// preemptor's pods name their room in the API, or a successor could give it away. So a gang of
// which a part is gone says on every pod that is left that it has to go too, and
// whoever finds that finishes it (remains.go), also when this process has died.
// Beyond these marks no decision is remembered: the next cycle of the preemptor
// finds those who leave and decides about the rest again.
//
// A gang may get nodes for more of its pods between the choice of victims and their
// end: bindings were under way, or planned beside it. So from its order on nothing of it
// is bound (goes), and those that have a node by then, or are about to, are victims too.
type evictor struct {
	client kubernetes.Interface
	pods   corev1listers.PodLister
	groups fwk.PodGroupManager
	events record.EventRecorder

	mu     sync.Mutex
	orders map[types.UID]*order // by preemptor
	// failures are how many orders in a row could not be carried out.
	failures map[types.UID]int
	// going are the gangs that are being evicted whole: nothing of them may be bound. It
	// ends when nothing of them is left (remains.go).
	going map[types.NamespacedName]*departure
}

// departure is what becomes of one gang that goes.
type departure struct {
	orders int  // that are being carried out
	begun  bool // the first of its pods is about to go, or has gone
}

func newEvictor(client kubernetes.Interface, pods corev1listers.PodLister, groups fwk.PodGroupManager, events record.EventRecorder) *evictor {
	return &evictor{client: client, pods: pods, groups: groups, events: events,
		orders: map[types.UID]*order{}, failures: map[types.UID]int{}, going: map[types.NamespacedName]*departure{}}
}

// order is what is evicted for one preemptor.
type order struct {
	preemptor string
	uid       types.UID
	priority  int32
	pods      []*v1.Pod
	units     []clusterview.Unit
	// whole are the gangs that go whole, each pod that has a node; those of the units
	// if nothing else is said.
	whole   []types.NamespacedName
	victims []*v1.Pod
	wake    func()
	until   time.Time
	// nodes are those of the room that is kept for the pods.
	nodes map[types.UID]string
	// why is said on the victims, and their event's reason is what.
	why, what string

	// left are those of the victims, and of orders that this one replaced, that have not
	// gone; own are its victims.
	left, own map[types.UID]bool
}

// preempted is what victims are told.
const preempted = "Preempted"

// busy tells whether victims of the preemptor have not gone yet.
func (e *evictor) busy(uid types.UID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.orders[uid] != nil
}

// has tells whether the pod is among the victims of an order that is under way.
func (e *evictor) has(pod types.UID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, o := range e.orders {
		if o.left[pod] {
			return true
		}
	}
	return false
}

// evict begins; it does not wait. What is under way already is not begun again.
func (e *evictor) evict(o order) {
	if o.why == "" {
		o.why, o.what = fmt.Sprintf("evicted for %s of priority %d", o.preemptor, o.priority), preempted
	}
	for _, unit := range o.units {
		if unit.Gang.Name != "" && !unit.Spare {
			o.whole = append(o.whole, unit.Gang)
		}
	}
	o.left, o.own = map[types.UID]bool{}, map[types.UID]bool{}
	more := false
	e.mu.Lock()
	before := e.orders[o.uid]
	for _, pod := range o.victims {
		o.left[pod.UID], o.own[pod.UID] = true, true
		more = more || before == nil || !before.left[pod.UID]
	}
	if !more {
		e.mu.Unlock()
		return
	}
	if before != nil {
		for uid := range before.left {
			o.left[uid] = true
		}
	}
	e.orders[o.uid] = &o
	for _, key := range o.whole {
		if e.going[key] == nil {
			e.going[key] = &departure{}
		}
		e.going[key].orders++
	}
	e.mu.Unlock()
	count(o)
	go e.carryOut(&o)
}

// carryOut marks all victims, then deletes them. After a failure the order is
// under way until it is time to decide anew.
func (e *evictor) carryOut(o *order) {
	logger := klog.Background().WithValues("preemptor", o.preemptor)
	defer e.ended(o)
	err := e.request(o, logger)
	if err == nil {
		e.forget(o.uid)
		return
	}
	if errors.Is(err, errNotWanted) {
		e.forget(o.uid)
		e.close(o)
		return
	}
	pause := e.failed(o.uid)
	logger.Error(err, "Some pods could not be evicted; deciding anew", "after", pause)
	time.Sleep(pause)
	e.close(o)
	o.wake()
}

// errNotWanted: nobody is there any more for whom to evict.
var errNotWanted = errors.New("the preemptor has gone or runs")

func (e *evictor) request(o *order, logger klog.Logger) error {
	ctx, cancel := context.WithTimeout(context.Background(), evictionPatience)
	defer cancel()
	if !e.wanted(o) {
		return errNotWanted
	}
	e.awaitRoom(ctx, o)
	e.complete(o)
	logger.V(2).Info("Evicting pods", "victims", klog.KObjSlice(o.victims))
	for marked := 0; marked < len(o.victims); e.complete(o) {
		unmarked := o.victims[marked:]
		marked = len(o.victims)
		if err := e.each(unmarked, func(pod *v1.Pod) error { return e.mark(ctx, o, pod, v1.ConditionTrue) }); err != nil {
			return err
		}
	}
	if !e.wanted(o) {
		_ = e.each(o.victims, func(pod *v1.Pod) error { return e.mark(ctx, o, pod, v1.ConditionFalse) }) // else the mark goes stale
		return errNotWanted
	}
	e.begin(o)
	return e.each(o.victims, func(pod *v1.Pod) error { return e.remove(ctx, o, pod) })
}

// complete adds what has a node by now of the gangs that go whole, or is about to
// be bound: nothing more of them can be, since they go.
func (e *evictor) complete(o *order) {
	for _, key := range o.whole {
		late := clusterview.Unit{Gang: key}
		for _, pod := range e.members(key) {
			if !slices.ContainsFunc(o.victims, func(victim *v1.Pod) bool { return victim.UID == pod.UID }) {
				late.Pods = append(late.Pods, pod)
			}
		}
		if len(late.Pods) == 0 {
			continue
		}
		e.mu.Lock()
		for _, pod := range late.Pods {
			o.left[pod.UID], o.own[pod.UID] = true, true
		}
		e.mu.Unlock()
		o.victims = append(o.victims, late.Pods...)
		count(order{preemptor: o.preemptor, units: []clusterview.Unit{late}})
	}
}

// members are the pods of the gang that have nodes, or are about to be bound, and
// that are not being deleted. O(pods).
func (e *evictor) members(key types.NamespacedName) []*v1.Pod {
	var members []*v1.Pod
	known := map[types.UID]bool{}
	pods, err := e.pods.List(labels.Everything()) // by namespace there is no index
	if err != nil {
		pods = nil // a cache does not fail
	}
	for _, pod := range pods {
		if of, ok := clusterview.GangOf(pod); ok && of == key && pod.Spec.NodeName != "" {
			known[pod.UID] = true
			if pod.DeletionTimestamp == nil {
				members = append(members, pod)
			}
		}
	}
	if state, err := e.groups.PodGroupStates().Get(key.Namespace, key.Name); err == nil {
		for _, pod := range live(state.ScheduledPods()) {
			if !known[pod.UID] {
				members = append(members, pod)
			}
		}
	}
	slices.SortFunc(members, func(a, b *v1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return members
}

// goes tells whether the gang is being evicted whole. Whoever is about to bind a pod
// asks after it has been assumed, and members looks for assumed pods after
// the gang goes: one of them sees the other.
func (e *evictor) goes(key types.NamespacedName) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.going[key] != nil
}

// asks tells whether an order for the whole gang is being carried out.
func (e *evictor) asks(key types.NamespacedName) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.going[key] != nil && e.going[key].orders > 0
}

// begin is called before the first victim goes.
func (e *evictor) begin(o *order) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, key := range o.whole {
		e.going[key].begun = true
	}
}

// ended is called when an order has been carried out, as far as can be.
func (e *evictor) ended(o *order) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, key := range o.whole {
		e.going[key].orders--
	}
}

// leave says that the gang goes, and tells whether something of it has gone.
func (e *evictor) leave(key types.NamespacedName) (begun bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.going[key] == nil {
		e.going[key] = &departure{}
	}
	return e.going[key].begun
}

// stay says that the gang may be bound again, unless an order has come for it.
func (e *evictor) stay(key types.NamespacedName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if d := e.going[key]; d != nil && d.orders == 0 {
		delete(e.going, key)
	}
}

// leaving are the gangs that go.
func (e *evictor) leaving() []types.NamespacedName {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Keys(e.going))
}

// awaitRoom returns when the preemptor's pods say which room is kept for them; the
// engine writes that after its cycle.
func (e *evictor) awaitRoom(ctx context.Context, o *order) {
	_ = wait.PollUntilContextTimeout(ctx, promiseCheck, promiseRoom, true, func(context.Context) (bool, error) {
		for _, pod := range o.pods {
			node, kept := o.nodes[pod.UID]
			if !kept {
				continue
			}
			current, err := e.pods.Pods(pod.Namespace).Get(pod.Name)
			if err == nil && current.UID == pod.UID && current.Status.NominatedNodeName != node {
				return false, nil
			}
		}
		return true, nil
	})
}

// each does something with every victim, some at a time, also after an error: what
// has been begun is to be finished as far as can be.
func (e *evictor) each(victims []*v1.Pod, do func(*v1.Pod) error) error {
	var group errgroup.Group
	group.SetLimit(evictionsInFlight)
	for _, pod := range victims {
		group.Go(func() error {
			err := retry.OnError(retry.DefaultBackoff, util.Retriable, func() error { return do(pod) })
			switch {
			case e.hasGone(pod, err):
				e.gone(pod)
			case err != nil:
				return fmt.Errorf("evicting pod %s/%s: %w", pod.Namespace, pod.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// hasGone tells whether a request failed because the pod is no more; another one
// may bear its name.
func (e *evictor) hasGone(pod *v1.Pod, err error) bool {
	if apierrors.IsConflict(err) {
		var current *v1.Pod
		current, err = e.client.CoreV1().Pods(pod.Namespace).Get(context.Background(), pod.Name, metav1.GetOptions{})
		if err == nil {
			return current.UID != pod.UID
		}
	}
	return apierrors.IsNotFound(err)
}

// forget drops the failures of a preemptor.
func (e *evictor) forget(uid types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.failures, uid)
}

// failed counts a failure and tells how long to wait after it.
func (e *evictor) failed(uid types.UID) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.failures[uid]
	e.failures[uid]++
	return min(lastEvictRetry, firstEvictRetry<<min(n, 10))
}

// wanted tells whether anybody is there still for whom to evict.
func (e *evictor) wanted(o *order) bool {
	if len(o.pods) == 0 {
		return true // what was begun is finished
	}
	for _, pod := range o.pods {
		if current, err := e.pods.Pods(pod.Namespace).Get(pod.Name); err == nil && current.UID == pod.UID &&
			current.DeletionTimestamp == nil && current.Spec.NodeName == "" {
			return true
		}
	}
	return false
}

// mark says on the pod why it goes, or that it does not. The UID keeps the patch from another pod of
// its name, the one that replaces it.
func (e *evictor) mark(ctx context.Context, o *order, pod *v1.Pod, status v1.ConditionStatus) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status": map[string]any{"conditions": []v1.PodCondition{{
			Type: v1.DisruptionTarget, Status: status, Reason: v1.PodReasonPreemptionByScheduler,
			ObservedGeneration: pod.Generation, LastTransitionTime: metav1.Now(), Message: o.why,
		}}},
	})
	if err != nil {
		return fmt.Errorf("making the condition: %w", err)
	}
	_, err = e.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

func (e *evictor) remove(ctx context.Context, o *order, pod *v1.Pod) error {
	err := e.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	if err == nil {
		e.events.Event(pod, v1.EventTypeNormal, o.what, o.why)
	}
	return err
}

// gone is called when a pod is no more; the last victim wakes its preemptor.
func (e *evictor) gone(pod *v1.Pod) {
	e.mu.Lock()
	var done []*order
	for uid, o := range e.orders {
		if !o.left[pod.UID] {
			continue
		}
		if delete(o.left, pod.UID); len(o.left) == 0 {
			delete(e.orders, uid)
			done = append(done, o)
		}
	}
	e.mu.Unlock()
	for _, o := range done {
		o.wake()
	}
}

// close ends an order that could not be carried out, or is not wanted. One that has
// replaced it does not wait for its victims any more: nobody evicts them.
func (e *evictor) close(o *order) {
	e.mu.Lock()
	defer e.mu.Unlock()
	other := e.orders[o.uid]
	if other == nil {
		return
	}
	if other != o {
		for uid := range o.own {
			if !other.own[uid] {
				delete(other.left, uid)
			}
		}
	}
	if other == o || len(other.left) == 0 {
		delete(e.orders, o.uid)
	}
}

// hurry tries the gang again at once: what it waited for is there.
func (g *gate) hurry(key types.NamespacedName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gang, ok := g.gangs[key]
	if !ok {
		return
	}
	gang.attempts, gang.stale = 0, true
	g.lookAfter(key, gang, settle)
}
