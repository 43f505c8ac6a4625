// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package whatif answers what Tutti would do with a gang, and does nothing: the
// scheduler itself, and for a job the controller itself, run in this process on
// an API server in memory that holds a snapshot of the cluster. So the answer
// is the scheduler's own, with all its filters, and not another planner's.
package whatif

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	"github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/pkg/snapshot"
	"github.com/tutti-project/tutti/pkg/topology"
)

// Target is what is asked about: exactly one of its fields is set.
type Target struct {
	Gang types.NamespacedName // a PodGroup
	Job  types.NamespacedName // a TFJob: its pods are made anew by the controller
	Pod  types.NamespacedName // a pod in no gang
}

func (t Target) String() string {
	switch {
	case t.Job.Name != "":
		return "tfjob " + t.Job.String()
	case t.Pod.Name != "":
		return "pod " + t.Pod.String()
	}
	return "podgroup " + t.Gang.String()
}

// Options are how to ask.
type Options struct {
	// Config is the scheduler's; nil is the built-in one.
	Config *schedulerconfig.KubeSchedulerConfiguration
	// Now is the clock, by which a job's deadlines are judged.
	Now func() time.Time
	// Preempt: pods that may be evicted for the target are.
	Preempt bool
	// Timeout bounds how long a verdict may take; 0 is DefaultTimeout.
	Timeout time.Duration
	// Quiet is how long nothing must have happened for the world to be at rest;
	// 0 is DefaultQuiet.
	Quiet time.Duration
}

// Defaults of Options.
const (
	DefaultTimeout = time.Minute
	DefaultQuiet   = 300 * time.Millisecond
	// evicted is how long evictions may take that the scheduler has decided on, with
	// nothing happening meanwhile.
	evicted = time.Second
)

// Outcome is what would happen.
type Outcome struct {
	Target Target
	// Placed: the gang's minimum, or the pod, has its nodes.
	Placed bool
	// Soon: it gets them as soon as pods are gone that are being deleted. In a snapshot they stay.
	Soon bool `json:",omitempty"`
	// Failed: the job would fail before it has pods. Suspended: it would have none until it is
	// resumed, and the rest is what would happen then, if that was asked.
	Failed, Suspended bool `json:",omitempty"`
	// Reason and Message are the scheduler's verdict in its own words.
	Reason, Message string
	// Pods are the target's, by role and rank; Node is empty for one that has none.
	Pods []Pod
	// Evicted are the pods that would go for it.
	Evicted []types.NamespacedName
}

// Pod is one of the target's pods and where it would be.
type Pod struct {
	Name, Role, Node string
	Requests         map[string]int64
	// Running: it had its node before.
	Running bool
}

// isolate keeps of a snapshot what matters to the target: what holds room, and
// the target itself. Other gangs that wait would only take part in a race.
func isolate(s *snapshot.Snapshot, target Target, preempt bool, now time.Time) ([]*unstructured.Unstructured, error) {
	kept, groups, found, err := isolatePods(s, target, preempt)
	if err != nil {
		return nil, err
	}
	for _, o := range s.Objects {
		switch o.GetKind() {
		case "Pod":
		case "NodeTopology":
			kept = append(kept, refreshed(o, s.Taken, now))
		case "PodGroup":
			switch {
			case snapshot.KeyOf(o) == target.Gang:
				kept = append(kept, undecided(o, tutti.GangPlacedCondition, lacks(s, o)))
			case groups[snapshot.KeyOf(o)]:
				kept = append(kept, o)
			}
			found = found || snapshot.KeyOf(o) == target.Gang
		case "TFJob":
			if snapshot.KeyOf(o) == target.Job {
				found = true
				kept = append(kept, o)
			}
		default:
			kept = append(kept, o)
		}
	}
	if !found {
		return nil, fmt.Errorf("%s is not in the snapshot", target)
	}
	return kept, nil
}

// isolatePods keeps pods and names the groups that they need; found says whether
// one of the target's is among them.
func isolatePods(s *snapshot.Snapshot, target Target, preempt bool) (kept []*unstructured.Unstructured, groups map[types.NamespacedName]bool, found bool, err error) {
	groups = map[types.NamespacedName]bool{target.Gang: true}
	for _, pod := range s.Of("Pod") {
		own := (target.Gang.Name != "" && snapshot.GangOf(pod) == target.Gang) || snapshot.KeyOf(pod) == target.Pod
		nominated, _, _ := unstructured.NestedString(pod.Object, "status", "nominatedNodeName")
		switch {
		case snapshot.HasEnded(pod):
			if own {
				kept = append(kept, pod) // ranks that have succeeded count
			}
		case own:
			found = true
			if !preempt { // those that run as well: a gang has one policy
				pod = pod.DeepCopy()
				if err := unstructured.SetNestedField(pod.Object, string(v1.PreemptNever), "spec", "preemptionPolicy"); err != nil {
					return nil, nil, false, fmt.Errorf("pod %s: %w", snapshot.KeyOf(pod), err)
				}
			}
			kept = append(kept, undecided(pod, string(v1.PodScheduled), false))
		case snapshot.NodeOf(pod) != "" || nominated != "":
			kept = append(kept, pod)
			groups[snapshot.GangOf(pod)] = true
		}
	}
	return kept, groups, found, nil
}

// lacks tells whether the group runs below its minimum. If it does, what is said of
// its placement is of the time before it lost pods.
func lacks(s *snapshot.Snapshot, group *unstructured.Unstructured) bool {
	minimum, _ := snapshot.MinimumOf(group)
	minimum = max(1, minimum)
	for _, pod := range s.Of("Pod") {
		if snapshot.GangOf(pod) == snapshot.KeyOf(group) && pod.GetDeletionTimestamp() == nil && snapshot.NodeOf(pod) != "" && snapshot.PhaseOf(pod) != v1.PodFailed {
			minimum--
		}
	}
	return minimum > 0
}

// undecided is the object without a refusal of before: it would be read as the
// answer, and the scheduler does not write one again that is the same. With stale
// set any answer goes.
func undecided(o *unstructured.Unstructured, kind string, stale bool) *unstructured.Unstructured {
	if c, ok := snapshot.ConditionOf(o, kind); !ok || c.Status == metav1.ConditionTrue && !stale {
		return o
	}
	o = o.DeepCopy()
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	conditions = slices.DeleteFunc(conditions, func(c any) bool {
		fields, ok := c.(map[string]any)
		return ok && fields["type"] == kind
	})
	_ = unstructured.SetNestedSlice(o.Object, conditions, "status", "conditions")
	return o
}

// refreshed is an agent's report that is as old now as it was when the snapshot
// was taken.
func refreshed(o *unstructured.Unstructured, taken, now time.Time) *unstructured.Unstructured {
	text, _, _ := unstructured.NestedString(o.Object, "status", "heartbeatTime")
	heartbeat, err := time.Parse(time.RFC3339, text)
	if err != nil || taken.IsZero() {
		return o
	}
	o = o.DeepCopy()
	_ = unstructured.SetNestedField(o.Object, heartbeat.Add(now.Sub(taken)).UTC().Format(time.RFC3339), "status", "heartbeatTime")
	return o
}

// Waiting are the gangs of which pods wait for one of these schedulers, in the
// order of their names.
func Waiting(s *snapshot.Snapshot, schedulers []string) []types.NamespacedName {
	found := map[types.NamespacedName]bool{}
	for _, pod := range s.Of("Pod") {
		if snapshot.NodeOf(pod) == "" && !snapshot.HasEnded(pod) && slices.Contains(schedulers, snapshot.SchedulerOf(pod)) {
			found[snapshot.GangOf(pod)] = true
		}
	}
	delete(found, types.NamespacedName{})
	return slices.SortedFunc(maps.Keys(found), func(a, b types.NamespacedName) int { return topology.CompareNatural(a.String(), b.String()) })
}

const (
	// refusedReason is the verdict on a job of which the API server would refuse a pod, and the reason of the controller's event.
	refusedReason = "FailedCreatePod"
	// grouplessReason is that on pods of a group that does not exist: the scheduler waits for it and says nothing.
	grouplessReason = "NoPodGroup"
)

// world is one run.
type world struct {
	server  *server
	store   *store
	target  Target
	preempt bool
	before  map[types.UID]bool // pods that had their node before
	refused chan error         // the first refusal of a pod that the controller would make

	mu      sync.Mutex
	evicted []types.NamespacedName
}

// Run plays the snapshot through for one target and returns when the scheduler
// has decided. The snapshot is not changed.
func Run(ctx context.Context, s *snapshot.Snapshot, target Target, options Options) (*Outcome, error) {
	if options.Timeout == 0 {
		options.Timeout = DefaultTimeout
	}
	if options.Quiet == 0 {
		options.Quiet = DefaultQuiet
	}
	objects, err := isolate(s, target, options.Preempt, options.Now())
	if err != nil {
		return nil, err
	}
	if target.Gang.Name != "" && s.GroupOf(target.Gang) == nil {
		return &Outcome{Target: target, Reason: grouplessReason, Message: "its PodGroup does not exist"}, nil
	}
	w := &world{target: target, preempt: options.Preempt, before: map[types.UID]bool{}, refused: make(chan error, 1)}
	if w.store, err = newStore(objects); err != nil {
		return nil, err
	}
	w.server = &server{store: w.store, deleted: w.noteEviction, created: w.admitOrTell}
	pods, _ := w.store.list(podKind.Resource)
	for _, pod := range pods {
		w.before[pod.GetUID()] = snapshot.NodeOf(pod) != ""
	}
	ctx, cancel := context.WithTimeout(ctx, options.Timeout)
	defer cancel()
	wait, err := w.start(ctx, options)
	if err != nil {
		return nil, err
	}
	outcome, err := w.settle(ctx, options)
	cancel()
	wait()
	return outcome, err
}

func (w *world) noteEviction(pod *unstructured.Unstructured) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.evicted = append(w.evicted, snapshot.KeyOf(pod))
}

// config is how clients reach the world.
func (w *world) config() *rest.Config {
	return &rest.Config{Host: "http://snapshot", Transport: w.server, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}}
}

// settle waits until the world is at rest after a verdict. The state, O(pods), is
// read only when nothing has changed for a while.
func (w *world) settle(ctx context.Context, options Options) (*Outcome, error) {
	undecided := func() error {
		return fmt.Errorf("%s: %w before the scheduler decided", w.target, context.Cause(ctx))
	}
	for {
		grown := w.store.next()
		quiet := time.NewTimer(options.Quiet)
		select {
		case <-grown:
			quiet.Stop()
			continue
		case <-quiet.C:
		case <-ctx.Done():
			quiet.Stop()
			return nil, undecided()
		}
		outcome := w.outcome()
		var leaving <-chan time.Time
		switch outcome.Reason {
		case "":
		case tutti.PreemptingReason:
			leaving = time.After(evicted)
		default:
			return outcome, nil
		}
		select {
		case <-grown:
		case <-leaving: // those that it evicts are gone at once, so it waits for others
			outcome.Soon = true
			return outcome, nil
		case refusal := <-w.refused: // the scheduler will have nothing to decide
			return &Outcome{Target: w.target, Reason: refusedReason, Message: refusal.Error()}, nil
		case <-ctx.Done():
			return nil, undecided()
		}
	}
}

// outcome reads the present state of the target.
func (w *world) outcome() *Outcome {
	outcome := &Outcome{Target: w.target}
	gang := w.target.Gang
	if w.target.Job.Name != "" {
		gang = w.target.Job // the controller calls the gang as the job
	}
	if gang.Name != "" {
		group, ok := w.store.get(snapshot.NativePodGroup.Resource, gang)
		if !ok {
			group, ok = w.store.get(groupKind.Resource, gang)
		}
		if ok {
			outcome.read(group, tutti.GangPlacedCondition)
		}
	}
	pods, _ := w.store.list(podKind.Resource)
	for _, pod := range pods {
		if (gang.Name == "" || snapshot.GangOf(pod) != gang) && snapshot.KeyOf(pod) != w.target.Pod {
			continue
		}
		if snapshot.KeyOf(pod) == w.target.Pod {
			outcome.read(pod, string(v1.PodScheduled))
			if snapshot.NodeOf(pod) != "" {
				outcome.Placed, outcome.Reason, outcome.Message = true, "Scheduled", "placed on "+snapshot.NodeOf(pod)
			}
		}
		outcome.Pods = append(outcome.Pods, w.podOf(pod))
	}
	if job, ok := w.store.get(jobKind.Resource, w.target.Job); ok && outcome.Reason == "" {
		outcome.readFailure(job)
	}
	slices.SortStableFunc(outcome.Pods, func(a, b Pod) int {
		if a.Role != b.Role {
			return topology.CompareNatural(a.Role, b.Role)
		}
		return topology.CompareNatural(a.Name, b.Name)
	})
	w.mu.Lock()
	outcome.Evicted = slices.Clone(w.evicted)
	w.mu.Unlock()
	return outcome
}

// read takes a verdict from a condition.
func (o *Outcome) read(object *unstructured.Unstructured, kind string) {
	if c, ok := snapshot.ConditionOf(object, kind); ok {
		o.Placed, o.Reason, o.Message = c.Status == metav1.ConditionTrue, c.Reason, c.Message
	}
}

// readFailure takes the controller's word that the job cannot be.
func (o *Outcome) readFailure(job *unstructured.Unstructured) {
	for _, kind := range []kubeflowv1.JobConditionType{kubeflowv1.JobFailed, kubeflowv1.JobSuspended} {
		if c, ok := snapshot.ConditionOf(job, string(kind)); ok && c.Status == metav1.ConditionTrue {
			o.Failed, o.Suspended = kind == kubeflowv1.JobFailed, kind == kubeflowv1.JobSuspended
			o.Reason, o.Message = c.Reason, c.Message
			return
		}
	}
}

func (w *world) podOf(o *unstructured.Unstructured) Pod {
	p := Pod{Name: o.GetName(), Role: o.GetLabels()[kubeflowv1.ReplicaTypeLabel], Node: snapshot.NodeOf(o), Running: w.before[o.GetUID()]}
	var pod v1.Pod
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &pod); err == nil {
		p.Requests = requestsOf(&pod)
	}
	return p
}
