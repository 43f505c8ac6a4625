// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/pkg/clusterview"
)

const (
	// settle is how long the gate waits after the last event of a gang before
	// it opens: the engine's handlers see the same events, in no order, and
	// the queue must hold the last member.
	settle = 10 * time.Millisecond
	// An opened gate looks after firstRecheck whether the planner took the
	// gang up, then after twice as long, up to lastRecheck.
	firstRecheck = 250 * time.Millisecond
	lastRecheck  = 8 * time.Second
	// A gang that was tried in vain is tried again no sooner than firstRetry
	// after it, then twice that, up to lastRetry.
	firstRetry = 50 * time.Millisecond
	lastRetry  = 5 * time.Second
	// tellAfter is how long a gang may lack pods before its owner is told.
	tellAfter = 5 * time.Second
	// calm is how long a placed gang must leave the planner alone for earlier
	// attempts to be forgotten.
	calm = time.Minute
	// tornPatience bounds how long new gangs wait for a torn one.
	tornPatience = 15 * time.Second
	// lostEvent bounds how long a gang waits that fits by a change that the
	// gate was not told of.
	lostEvent = 30 * time.Second
)

// gate decides when a gang enters the scheduling queue: when its quorum
// exists and, after the planner said no, when the cluster has changed. The
// engine asks PreEnqueue about each pod; that answers in O(1) and is always no
// until the gate's own goroutine has let the gang in, by one Activate for the
// whole of it. (From inside PreEnqueue or a queueing hint, Activate would
// deadlock: the queue's lock is held.) So a gang enters complete, and its
// members are looked at once and not again for every sibling that appears.
//
// Invariants: a gang of which a member was kept out is due at some time, or
// its next event makes it so; a due gang that is complete is activated again
// and again until the planner takes it up; room that came free after a gang
// was let in, and before it was refused, makes the refusal stale at once.
type gate struct {
	handle fwk.Handle
	clock  clock.Clock
	queue  workqueue.TypedDelayingInterface[types.NamespacedName]
	report *reporter

	mu sync.Mutex
	// epoch counts changes that may make room.
	epoch uint64
	gangs map[types.NamespacedName]*gated
}

// gated is what the gate remembers of one gang.
type gated struct {
	// member is any one of the pods: Activate wakes the whole group by it.
	member *v1.Pod
	// let is set from an activation until the planner takes the gang up.
	let bool
	// since is the epoch in which it was let in.
	since uint64
	// entered is when the gang was first found complete since it was placed.
	entered time.Time
	// refused is set after the planner said no, stale when the cluster has
	// changed since.
	refused, stale bool
	// attempts counts cycles since the gang was last calm.
	attempts int
	// due is when to look at the gang; zero when only an event can help.
	due    time.Time
	checks int
	// lack is what the gang was last found to lack.
	lack string
	// placed is when the gang was last placed: its bindings may still fail.
	placed time.Time
	// torn is when the gang was first seen to run in part since it was calm.
	torn time.Time
}

func newGate(handle fwk.Handle, report *reporter) *gate {
	return &gate{
		handle: handle,
		clock:  clock.RealClock{},
		queue:  workqueue.NewTypedDelayingQueue[types.NamespacedName](),
		report: report,
		gangs:  map[types.NamespacedName]*gated{},
	}
}

// PreEnqueue implements fwk.PreEnqueuePlugin.
func (p *Plugin) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	if name, ok := clusterview.GroupOf(pod); ok && !p.gate.admits(types.NamespacedName{Namespace: pod.Namespace, Name: name}, pod) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "waiting for the gang")
	}
	return nil
}

// EventsToRegister implements fwk.EnqueueExtensions: no event by itself moves
// a gated gang, the gate's own Activate does.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return nil, nil
}

// admits tells whether the pod's gang has been let in. O(1).
func (g *gate) admits(key types.NamespacedName, pod *v1.Pod) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	gang := g.gang(key)
	gang.member = pod
	if !gang.let && gang.due.IsZero() {
		g.lookAfter(key, gang, gang.retryAfter())
	}
	return gang.let
}

// takenUp is called when the planner begins with the gang.
func (g *gate) takenUp(key types.NamespacedName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gang := g.gang(key)
	if !gang.placed.IsZero() && g.clock.Since(gang.placed) > calm {
		gang.attempts, gang.torn = 0, time.Time{}
	}
	gang.let, gang.due, gang.checks, gang.placed = false, time.Time{}, 0, time.Time{}
	gang.attempts++
}

// refuse keeps the gang out until the cluster changes: the planner said no.
func (g *gate) refuse(key types.NamespacedName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gang := g.gang(key)
	gang.refused, gang.stale = true, gang.since != g.epoch
	wait := lostEvent
	if gang.stale {
		wait = gang.retryAfter()
	}
	g.lookAfter(key, gang, wait)
}

// waiting lists the gangs of which a pod was kept out here, that may be tried,
// and that are not the one given.
func (g *gate) waiting(except types.NamespacedName) []types.NamespacedName {
	g.mu.Lock()
	defer g.mu.Unlock()
	var keys []types.NamespacedName
	for key, gang := range g.gangs {
		if key != except && gang.member != nil && (!gang.refused || gang.stale) {
			keys = append(keys, key)
		}
	}
	return keys
}

// holdsOthers tells whether new gangs wait for this one, which runs in part. It
// has some time to be completed; whatever keeps it longer must not keep others.
func (g *gate) holdsOthers(key types.NamespacedName) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	gang := g.gang(key)
	if gang.torn.IsZero() {
		gang.torn = g.clock.Now()
	}
	return g.clock.Since(gang.torn) < tornPatience
}

// placed lifts the refusal and tells how long the gang waited. Attempts are
// remembered: a gang whose bindings fail is placed again and again, ever more
// slowly.
func (g *gate) placed(key types.NamespacedName) (waited time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gang := g.gang(key)
	if !gang.entered.IsZero() {
		waited = g.clock.Since(gang.entered)
	}
	gang.entered = time.Time{}
	gang.refused, gang.stale, gang.placed = false, false, g.clock.Now()
	return waited
}

// changed is called when something may fit that did not.
func (g *gate) changed() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.epoch++
	for key, gang := range g.gangs {
		if gang.refused && !gang.stale {
			gang.stale = true
			g.lookAfter(key, gang, gang.retryAfter())
		}
	}
}

// wake looks at the gang soon: its pods or its group changed.
func (g *gate) wake(key types.NamespacedName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lookAfter(key, g.gang(key), settle)
}

// wakeKnown is wake for a gang that has not been forgotten: the last pods of
// one may go after its group.
func (g *gate) wakeKnown(key types.NamespacedName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if gang, ok := g.gangs[key]; ok {
		g.lookAfter(key, gang, settle)
	}
}

// forget drops a gang that is no more.
func (g *gate) forget(group *schedulingv1beta1.PodGroup) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.gangs, keyOf(group))
	g.report.forget(group.UID)
}

// lookAfter sets when to look at the gang. Callers hold mu.
func (g *gate) lookAfter(key types.NamespacedName, gang *gated, wait time.Duration) {
	gang.due = g.clock.Now().Add(wait)
	g.queue.AddAfter(key, wait)
}

// gang returns what is remembered under the key. Callers hold mu.
func (g *gate) gang(key types.NamespacedName) *gated {
	gang, ok := g.gangs[key]
	if !ok {
		gang = &gated{}
		g.gangs[key] = gang
	}
	return gang
}

func (g *gated) retryAfter() time.Duration {
	if g.attempts == 0 {
		return settle
	}
	return min(lastRetry, firstRetry<<min(g.attempts-1, 10))
}

// run lets gangs in until ctx ends.
func (g *gate) run(ctx context.Context) {
	go func() {
		<-ctx.Done()
		g.queue.ShutDown()
	}()
	logger := klog.FromContext(ctx)
	for {
		key, shutdown := g.queue.Get()
		if shutdown {
			return
		}
		g.look(logger, key)
		g.queue.Done(key)
	}
}

// look lets the gang in if it is due and complete. O(members).
func (g *gate) look(logger klog.Logger, key types.NamespacedName) {
	if !g.isDue(key) {
		return
	}
	group, complete, lack := g.complete(key)
	if !complete {
		if g.rest(key, lack) {
			g.report.incomplete(group, lack)
		}
		return
	}
	pod := g.admit(key)
	if pod == nil {
		return // the group was deleted meanwhile, or the queue knows no pod of it yet
	}
	logger.V(4).Info("Activating gang", "podGroup", klog.KRef(key.Namespace, key.Name))
	g.handle.Activate(logger, map[string]*v1.Pod{pod.Namespace + "/" + pod.Name: pod})
}

// isDue tells whether it is time. The queue keeps the earliest of several
// delays, so a key may come before it.
func (g *gate) isDue(key types.NamespacedName) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	gang, ok := g.gangs[key]
	if !ok || gang.due.IsZero() {
		return false
	}
	if wait := gang.due.Sub(g.clock.Now()); wait > 0 {
		g.queue.AddAfter(key, wait)
		return false
	}
	return true
}

// complete tells whether the gang can be tried at all and, if its group exists,
// what it lacks. What is missing comes as an event.
func (g *gate) complete(key types.NamespacedName) (group *schedulingv1beta1.PodGroup, ok bool, lack string) {
	groups := g.handle.PodGroupManager()
	group, err := groups.PodGroups().Get(key.Namespace, key.Name)
	if err != nil {
		return nil, false, ""
	}
	state, err := groups.PodGroupStates().Get(key.Namespace, key.Name)
	if err != nil {
		return group, false, ""
	}
	unscheduled := state.UnscheduledPods()
	exist := len(live(state.ScheduledPods()))
	for _, pod := range unscheduled {
		if pod.DeletionTimestamp == nil {
			exist++
		}
	}
	if quorum := quorumOf(group); exist < quorum {
		lack := fmt.Sprintf("waiting for pods: %d exist, and the gang's minimum is %d", exist, quorum)
		if held := group.Annotations[tutti.HeldPodsAnnotation]; held != "" {
			lack = fmt.Sprintf("%d pods can start, and the gang's minimum is %d: %s have scheduling gates, and the gang waits until those are gone", exist, quorum, held)
		}
		return group, false, lack
	}
	for _, pod := range unscheduled {
		if corev1helpers.PodPriority(pod) != priorityOf(group) {
			return group, false, fmt.Sprintf("the gang's pods differ in priority (%d and, of pod %s, %d): give all of them one priority class",
				priorityOf(group), pod.Name, corev1helpers.PodPriority(pod))
		}
	}
	if len(unscheduled) == 0 { // no cycle would tell that the minimum is met again
		g.report.runs(group, tally{placed: exist, all: exist}, "")
	}
	return group, len(unscheduled) > 0, ""
}

// rest waits for an event, unless one came since the gang was found due. It
// tells whether the gang's owner is to be told what it lacks: when it has
// lacked that for a while.
func (g *gate) rest(key types.NamespacedName, lack string) (tell bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gang := g.gang(key)
	gang.let, gang.entered = false, time.Time{}
	if gang.due.After(g.clock.Now()) {
		return false
	}
	if lack != gang.lack && lack != "" {
		gang.lack = lack
		g.lookAfter(key, gang, tellAfter)
		return false
	}
	gang.lack, gang.due = lack, time.Time{}
	return lack != ""
}

// admit opens the gate for the gang and plans the next look, in case the
// activation is lost.
func (g *gate) admit(key types.NamespacedName) *v1.Pod {
	g.mu.Lock()
	defer g.mu.Unlock()
	gang, ok := g.gangs[key]
	if !ok {
		return nil
	}
	if gang.member == nil {
		gang.due = time.Time{} // the first pod that is kept out sets it anew
		return nil
	}
	gang.let, gang.since = true, g.epoch
	if gang.entered.IsZero() {
		gang.entered = g.clock.Now()
	}
	gang.refused, gang.stale, gang.lack = false, false, ""
	g.lookAfter(key, gang, min(lastRecheck, firstRecheck<<min(gang.checks, 10)))
	gang.checks++
	return gang.member
}

// reserved tells whether all of these members still have a node reserved, and
// none is being deleted. O(members).
func (g *gate) reserved(key types.NamespacedName, members map[types.UID]bool) bool {
	state, err := g.handle.PodGroupManager().PodGroupStates().Get(key.Namespace, key.Name)
	if err != nil {
		return false
	}
	found := 0
	for _, pod := range live(state.ScheduledPods()) {
		if _, ok := members[pod.UID]; ok {
			found++
		}
	}
	return found == len(members)
}

// live leaves out pods that are being deleted: they hold their node still, but
// they are no members any more.
func live(pods []*v1.Pod) []*v1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(pod *v1.Pod) bool { return pod.DeletionTimestamp != nil })
}

func quorumOf(group *schedulingv1beta1.PodGroup) int {
	if gang := group.Spec.SchedulingPolicy.Gang; gang != nil {
		return int(gang.MinCount)
	}
	return 1
}

func priorityOf(group *schedulingv1beta1.PodGroup) int32 {
	if group.Spec.Priority != nil {
		return *group.Spec.Priority
	}
	return 0
}
