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
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

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
	lostLooks    = 4
	// A gang that was tried in vain is tried again no sooner than firstRetry
	// after it, then twice that, up to lastRetry, or lastTurn if it was refused
	// and waits for its turn besides.
	firstRetry = 50 * time.Millisecond
	lastRetry  = 5 * time.Second
	lastTurn   = time.Second
	// engineLag is how far the engine's view of the cluster may be behind the
	// gate's, each of which has its events from a handler of its own.
	engineLag = time.Second
	// calm is how long a placed gang must leave the planner alone for earlier
	// attempts to be forgotten.
	calm = time.Minute
	// tornPatience bounds how long new gangs wait for a torn one, from when it
	// was torn.
	tornPatience = 15 * time.Second
	// startsFor is how long a gang that was bound in part has done nothing yet that is
	// worth more than to start it whole.
	startsFor = time.Minute
	// lostEvent bounds how long a gang waits that fits by a change that the
	// gate was not told of, and lostEventEach what many refused gangs may cost:
	// that long for each of them.
	lostEvent     = 30 * time.Second
	lostEventEach = 500 * time.Millisecond
)

// gate decides when a gang enters the scheduling queue: when its quorum
// exists and, after the planner said no, when something changed that can help
// it (help.go), each in its turn (line.go). The engine asks PreEnqueue about
// each pod; that answers in O(1) and is always no until the gate's own goroutine
// has let the gang in, by one Activate for the whole of it. (From inside
// PreEnqueue or a queueing hint, Activate would deadlock: the queue's lock is
// held.) So a gang enters complete, and its members are looked at once and not
// again for every sibling that appears.
//
// Invariants: a gang of which a member was kept out is due at some time; a due
// gang that is complete is activated again and again until the planner takes it
// up; help that came after a gang was let in, and before it was refused, makes
// the refusal stale at once; help that came within engineLag before a gang was
// taken up makes it doubtful.
type gate struct {
	handle fwk.Handle
	// profile is the scheduler whose pods are the gate's.
	profile string
	clock   clock.Clock
	queue   workqueue.TypedDelayingInterface[types.NamespacedName]
	report  *reporter
	// goes tells whether a gang is being evicted, or a round of it is not over; nil for
	// none.
	goes func(types.NamespacedName) bool

	mu sync.Mutex
	// epochs count changes, by what they may help, moved when the last came.
	epochs epochs
	moved  [helps]time.Time
	gangs  map[types.NamespacedName]*gated
	line   line
}

// gated is what the gate remembers of one gang.
type gated struct {
	// member is any one of the pods: Activate wakes the whole group by it.
	member *v1.Pod
	// let is set from an activation until the planner takes the gang up; fresh
	// then, if the gang was not refused before.
	let, fresh bool
	// since are the epochs in which it was let in, taken when the planner took it
	// up.
	since epochs
	taken time.Time
	// entered is when the gang was first found complete since it was placed.
	entered time.Time
	// refused is set after the planner said no, for want of needs; stale when
	// something has changed since that can help.
	refused, stale bool
	needs          needs
	// attempts counts cycles since the gang was last calm.
	attempts int
	// due is when to look at the gang; zero when only an event can help.
	due    time.Time
	checks int
	// lack is what the gang was last found to lack, told how often its owner
	// was told that it lacks something.
	lack   lack
	told   int
	toldOf string
	// rests is set when its owner was told and nothing has happened since, but
	// that many looks.
	rests bool
	looks int
	// lackOf is how many pods it had then.
	lackOf int
	// waits is since when the gang has been complete and has waited.
	waits   time.Time
	timeout time.Duration
	// placed is when the gang was last placed: its bindings may still fail.
	placed   time.Time
	failures failures
	// lost: a member has gone since the gang began, and not by an eviction.
	lost bool
}

func newGate(handle fwk.Handle, profile string, report *reporter) *gate {
	return &gate{
		handle:  handle,
		profile: profile,
		clock:   clock.RealClock{},
		queue:   workqueue.NewTypedDelayingQueue[types.NamespacedName](),
		report:  report,
		gangs:   map[types.NamespacedName]*gated{},
		line:    newLine(),
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
	first := gang.member == nil
	gang.member = pod
	if !gang.let && (first || gang.due.IsZero() || gang.rests) {
		g.lookAfter(key, gang, gang.retryAfter(lastRetry))
	}
	return gang.let
}

// takenUp is called when the planner begins with the gang.
func (g *gate) takenUp(key types.NamespacedName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gang := g.gang(key)
	if !gang.placed.IsZero() && g.clock.Since(gang.placed) > calm {
		gang.attempts, gang.failures = 0, failures{}
	}
	g.close(key, gang)
	gang.due, gang.checks, gang.placed, gang.taken = time.Time{}, 0, time.Time{}, g.clock.Now()
	gang.attempts++
}

// close shuts the gate behind the gang, or before it. Callers hold mu.
func (g *gate) close(key types.NamespacedName, gang *gated) {
	if gang.let {
		gang.let = false
		g.line.entered(key, gang)
		g.queue.Add(nextTurn)
	}
}

// refuse keeps the gang out until something changes that can help: the planner
// said no. It returns what is to be said before the reason.
func (g *gate) refuse(key types.NamespacedName, n needs) (late string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gang := g.gang(key)
	gang.refused, gang.needs = true, n
	gang.stale = g.epochs.differ(gang.since, n.help)
	if gang.stale {
		g.lookAfter(key, gang, gang.retryAfter(lastTurn))
	} else {
		g.line.idle[key] = gang
		delete(g.line.waiting, key)
		now := g.clock.Now()
		wait := max(lostEvent, time.Duration(len(g.line.idle))*lostEventEach)
		if left := gang.deadline().Sub(now); gang.timeout > 0 && left > 0 {
			wait = min(wait, left)
		}
		if n.again > 0 {
			wait = min(wait, n.again)
		}
		var until time.Time
		doubt := g.doubts(gang)
		if doubt {
			wait, until = min(wait, engineLag), now.Add(engineLag)
		}
		g.line.no(n.alike, gang.since[helpRoom], until)
		g.lookAfter(key, gang, wait)
		if doubt {
			gang.stale, gang.since[helpRoom] = true, never // a sure answer for another one that is alike is news
		}
	}
	if g.overdue(gang) {
		return fmt.Sprintf("not placed within its scheduleTimeoutSeconds of %d, so it now waits behind others of its priority; ", int(gang.timeout.Seconds()))
	}
	return ""
}

// doubts tells whether the planner may not have seen the last change of what the
// gang needs when it refused it: it came within engineLag before. Then the gang is
// looked at once more, engineLag later, and those that are alike with it.
//
// That makes one more attempt for each change and gang, or for all that are alike:
// by then either the change is old, and the second answer is for good; or there
// was another one, which would have woken the gang by then anyhow. So where
// changes come one upon another there are no more attempts than without this;
// and where they come seldom, no more than were made in the second after each.
// Callers hold mu.
func (g *gate) doubts(gang *gated) bool {
	for kind, counts := range gang.needs.help {
		if counts && gang.taken.Sub(g.moved[kind]) < engineLag {
			return true
		}
	}
	return false
}

// waiting lists the gangs of which a pod was kept out here, that may be tried,
// and that are not the one given. A gang that was refused whole holds nobody.
func (g *gate) waiting(except types.NamespacedName) []types.NamespacedName {
	g.mu.Lock()
	defer g.mu.Unlock()
	var keys []types.NamespacedName
	for key, gang := range g.gangs {
		if key != except && gang.member != nil && (gang.let || !gang.due.IsZero() && !gang.rests) && (!gang.refused || gang.stale && gang.needs.partly) {
			keys = append(keys, key)
		}
	}
	return keys
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
	g.line.leave(key)
	gang.refused, gang.stale, gang.placed = false, false, g.clock.Now()
	gang.waits, gang.entered = time.Time{}, time.Time{}
	return waited
}

// failed is called when a binding of the placed gang failed. The pod comes back
// to the queue, and is looked at as any other; or it was bound after all, only the
// answer was lost, and then this look finds the gang whole.
func (g *gate) failed(key types.NamespacedName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if gang, ok := g.gangs[key]; ok {
		g.lookAfter(key, gang, gang.retryAfter(lastRetry))
	}
}

// resume looks soon at a gang that was put off until its round was over.
func (g *gate) resume(key types.NamespacedName, atMost time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if gang, ok := g.gangs[key]; ok && !gang.due.IsZero() {
		g.lookAfter(key, gang, gang.retryAfter(atMost))
	}
}

// begins is called when the first pods of the gang are bound.
func (g *gate) begins(key types.NamespacedName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gang(key).lost = false
}

// lost tells whether a member of the gang is known to have gone since it began.
func (g *gate) lost(key types.NamespacedName) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	gang, ok := g.gangs[key]
	return ok && gang.lost
}

// wake looks at the gang soon: its pods or its group changed.
func (g *gate) wake(key types.NamespacedName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rouse(key, g.gang(key))
}

// wakeKnown is wake for a gang that has not been forgotten: the last pods of
// one may go after its group.
func (g *gate) wakeKnown(key types.NamespacedName, lost bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if gang, ok := g.gangs[key]; ok {
		gang.lost = gang.lost || lost
		g.rouse(key, gang)
	}
}

func (g *gate) rouse(key types.NamespacedName, gang *gated) {
	gang.stale, gang.needs.alike = gang.refused, "" // it may no longer be what it was
	g.lookAfter(key, gang, settle)
}

// forget drops a gang that is no more; pods that it leaves are told so.
func (g *gate) forget(group *schedulingv1beta1.PodGroup) {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := keyOf(group)
	if gang, ok := g.gangs[key]; ok {
		g.close(key, gang)
	}
	g.line.leave(key)
	delete(g.gangs, key)
	g.report.forget(group.UID)
	if _, err := g.handle.PodGroupManager().PodGroupStates().Get(key.Namespace, key.Name); err == nil {
		g.lookAfter(key, g.gang(key), settle)
	}
}

// lookAfter sets when to look at the gang, or when its turn may come at the
// earliest if it was refused. Callers hold mu.
func (g *gate) lookAfter(key types.NamespacedName, gang *gated, wait time.Duration) {
	gang.due, gang.rests = g.clock.Now().Add(wait), false
	if gang.refused && gang.stale {
		delete(g.line.idle, key)
		g.line.waiting[key] = gang
		key = nextTurn
	}
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

func (g *gated) retryAfter(limit time.Duration) time.Duration {
	if g.attempts == 0 {
		return settle
	}
	return min(limit, firstRetry<<min(g.attempts-1, 10))
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
		if key == nextTurn {
			g.turns(logger)
		} else {
			g.look(logger, key)
		}
		g.queue.Done(key)
	}
}

// look lets the gang in if it is due and complete, or into the line if it was
// refused before.
func (g *gate) look(logger klog.Logger, key types.NamespacedName) {
	if g.isDue(key) {
		g.open(logger, key)
	}
}

// open lets the gang in if it is complete. O(members).
func (g *gate) open(logger klog.Logger, key types.NamespacedName) {
	if g.goes != nil && g.goes(key) {
		g.putOff(key)
		return
	}
	found := g.complete(key)
	if !found.complete {
		if tell, news := g.rest(key, found); tell {
			g.report.incomplete(found, news)
		}
		return
	}
	pod := g.admit(key, found)
	if pod == nil {
		return // the group was deleted meanwhile, or the queue knows no pod of it yet
	}
	logger.V(4).Info("Activating gang", "podGroup", klog.KRef(key.Namespace, key.Name))
	g.handle.Activate(logger, map[string]*v1.Pod{pod.Namespace + "/" + pod.Name: pod})
}

// putOff looks at the gang again when it may have gone, or its round be over.
func (g *gate) putOff(key types.NamespacedName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if gang, ok := g.gangs[key]; ok {
		g.lookAfter(key, gang, remainsCheck)
	}
}

// isDue tells whether it is time. The queue keeps the earliest of several
// delays, so a key may come before it.
func (g *gate) isDue(key types.NamespacedName) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	gang, ok := g.gangs[key]
	if !ok || gang.due.IsZero() || g.line.waiting[key] != nil {
		return false
	}
	if wait := gang.due.Sub(g.clock.Now()); wait > 0 {
		g.queue.AddAfter(key, wait)
		return false
	}
	if gang.refused {
		gang.stale = true
		g.lookAfter(key, gang, 0)
		return false
	}
	return true
}

// rest waits for an event, unless one came since the gang was found due. It
// tells whether the gang's owner is to be told what it lacks: when it has
// lacked that for a while, ever longer ones, and no pods have come meanwhile; news is a lack of another kind than
// told before.
//
// What it waits for may have come already: the engine has the gang's events from
// a handler of its own, which may be behind, and asks nothing about a pod that
// joins others that are kept out. So it is looked at again, in a second, in twice
// that, at last once a minute, and told nothing unless that finds something else.
func (g *gate) rest(key types.NamespacedName, found found) (tell, news bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gang := g.gang(key)
	g.close(key, gang)
	g.line.leave(key)
	gang.refused, gang.stale, gang.checks = false, false, 0
	gang.waits, gang.entered = time.Time{}, time.Time{}
	if gang.due.After(g.clock.Now()) {
		return false, false
	}
	if found.lack.text == "" {
		gang.due = time.Time{}
		if found.group == nil && len(found.pods) == 0 {
			delete(g.gangs, key) // neither group nor pods
		}
		return false, false
	}
	if found.lack != gang.lack || len(found.pods) != gang.lackOf {
		gang.lack, gang.lackOf = found.lack, len(found.pods)
		g.lookAfter(key, gang, min(lastTell, firstTell<<min(gang.told, 10)))
		return false, false
	}
	rested := gang.rests
	if !rested {
		gang.looks = 0
	}
	g.lookAfter(key, gang, min(lastTell, firstTell<<min(gang.looks, 10)))
	gang.rests = true
	gang.looks++
	if rested {
		return false, false
	}
	gang.told++
	news = gang.toldOf != found.lack.kind
	gang.toldOf = found.lack.kind
	return true, news
}

// admit opens the gate for the gang and plans the next look, in case the
// activation is lost.
func (g *gate) admit(key types.NamespacedName, found found) *v1.Pod {
	g.mu.Lock()
	defer g.mu.Unlock()
	gang, ok := g.gangs[key]
	if !ok {
		return nil
	}
	if gang.member == nil {
		// PreEnqueue has not asked about it: when it does, the gang is due. But
		// if the group has just gone, it never will.
		gang.due = time.Time{}
		if gang.checks++; gang.checks < lostLooks {
			g.lookAfter(key, gang, firstRecheck)
		}
		return nil
	}
	g.line.enter(key, gang)
	gang.let, gang.since = true, g.epochs
	gang.refused, gang.stale, gang.lack, gang.told, gang.toldOf = false, false, lack{}, 0, ""
	gang.timeout = timeoutOf(found.group)
	if gang.entered.IsZero() {
		gang.entered = g.clock.Now()
	}
	if gang.waits.IsZero() {
		gang.waits = found.since
	}
	g.lookAfter(key, gang, min(lastRecheck, firstRecheck<<min(gang.checks, 10)))
	if gang.checks++; gang.checks >= lostLooks {
		g.line.overlook(key) // something keeps it from the planner: nobody waits for it
		g.queue.Add(nextTurn)
	}
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
