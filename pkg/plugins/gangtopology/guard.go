// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/tutti-project/tutti/pkg/clusterview"
)

const (
	// A node is avoided for firstAvoid after a conflict; for twice as long when
	// there is another one soon after, up to lastAvoid.
	firstAvoid = time.Minute
	lastAvoid  = 16 * time.Minute
	// soonAfter the end of its avoidance a conflict of a node counts as another one.
	soonAfter = 10 * time.Minute
	// freshConflict is how old a rejected pod's binding may be.
	freshConflict = 2 * time.Minute
	avoidCheck    = time.Second
)

// guard keeps gangs off nodes on which they collide with somebody else: another
// scheduler that places pods there at the same time, or a kubelet that counts
// otherwise. It learns of a conflict when a kubelet rejects one of this profile's
// pods, or when pods that ask for more than a node has are bound to it. The other
// scheduler would most likely do the same again at once; so the node is avoided
// for a while, and the gang is tried again, all its waiting pods together.
type guard struct {
	profile string
	clock   clock.WithTicker
	nodes   corev1listers.NodeLister
	podsOn  func(node string) []*v1.Pod
	events  record.EventRecorder

	mu      sync.Mutex
	avoided map[string]avoidance // by node
}

type avoidance struct {
	until time.Time
	times int
}

// avoidedNode is why a node does not take pods that it has room for.
const avoidedNode = "avoided for a while after a conflict with another scheduler"

// kinds of conflicts, as the metric has them.
const (
	conflictRejected      = "rejected"
	conflictOvercommitted = "overcommitted"
)

func newGuard(profile string, nodes corev1listers.NodeLister, podsOn func(string) []*v1.Pod, events record.EventRecorder) *guard {
	for _, kind := range []string{conflictRejected, conflictOvercommitted} {
		conflicts.WithLabelValues(profile, kind)
	}
	return &guard{profile: profile, clock: clock.RealClock{}, nodes: nodes, podsOn: podsOn, events: events, avoided: map[string]avoidance{}}
}

// avoids says why no pod should go to the node, or nothing. O(1).
func (g *guard) avoids(node string) string {
	if g == nil {
		return ""
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if a, ok := g.avoided[node]; ok && g.clock.Now().Before(a.until) {
		return avoidedNode
	}
	return ""
}

// conflict begins to avoid the node.
func (g *guard) conflict(node, kind, what string) {
	g.mu.Lock()
	now := g.clock.Now()
	a := g.avoided[node]
	if now.Before(a.until) {
		g.mu.Unlock()
		return // what happens now was decided before
	}
	if a.times > 0 && now.Sub(a.until) > soonAfter {
		a.times = 0
	}
	long := min(lastAvoid, firstAvoid<<min(a.times, 10))
	g.avoided[node] = avoidance{until: now.Add(long), times: a.times + 1}
	g.mu.Unlock()
	conflicts.WithLabelValues(g.profile, kind).Inc()
	klog.Background().Info("Avoiding a node after a conflict", "node", node, "for", long, "conflict", what)
	g.events.Event(&v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node}, v1.EventTypeWarning, "PlacementConflict",
		fmt.Sprintf("%s; %s places no pods here for %s", what, g.profile, long))
}

// count is how many nodes are avoided now.
func (g *guard) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for _, a := range g.avoided {
		if g.clock.Now().Before(a.until) {
			n++
		}
	}
	return n
}

// run tells the gate when a node is avoided no more, and forgets what lies long
// back, until ctx ends.
func (g *guard) run(ctx context.Context, changed func()) {
	last := g.clock.Now()
	wait.UntilWithContext(ctx, func(context.Context) {
		now := g.clock.Now()
		if g.expired(last, now) {
			changed()
		}
		last = now
	}, avoidCheck)
}

func (g *guard) expired(last, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	any := false
	for node, a := range g.avoided {
		any = any || a.until.After(last) && !a.until.After(now)
		if now.Sub(a.until) > soonAfter {
			delete(g.avoided, node)
		}
	}
	return any
}

// watch looks at every binding of anybody's pods, from now on.
func (g *guard) watch(pods cache.SharedIndexInformer) error {
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			if pod := obj.(*v1.Pod); !initial && pod.Spec.NodeName != "" {
				g.bound(pod)
			}
		},
		UpdateFunc: func(old, obj any) {
			if pod := obj.(*v1.Pod); old.(*v1.Pod).Spec.NodeName == "" && pod.Spec.NodeName != "" {
				g.bound(pod)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watching bindings for conflicts: %w", err)
	}
	return nil
}

// bound looks whether the pod's node has what its pods ask for, if they are of
// several schedulers. O(pods of the node).
func (g *guard) bound(pod *v1.Pod) {
	pods := g.podsOn(pod.Spec.NodeName)
	ours, theirs := 0, sets.New[string]()
	for _, other := range pods {
		if other.Spec.SchedulerName == g.profile {
			ours++
		} else {
			theirs.Insert(other.Spec.SchedulerName)
		}
	}
	if ours == 0 || theirs.Len() == 0 {
		return
	}
	node, err := g.nodes.Get(pod.Spec.NodeName)
	if err != nil {
		return // it has gone, or is so new that nobody else knows it
	}
	if over := clusterview.Overcommitted(node, pods); over != "" {
		g.conflict(node.Name, conflictOvercommitted, fmt.Sprintf("pods of %s and %s ask for more %s than the node has",
			strings.Join(sets.List(theirs), ", "), g.profile, over))
	}
}

// watchRejected starts an informer of this profile's pods that failed: the
// engine's own leaves them out.
func (g *guard) watchRejected(ctx context.Context, client kubernetes.Interface) error {
	informer := coreinformers.NewFilteredPodInformer(client, metav1.NamespaceAll, 0, cache.Indexers{}, func(o *metav1.ListOptions) {
		o.FieldSelector = fields.Set{"status.phase": string(v1.PodFailed), "spec.schedulerName": g.profile}.String()
	})
	// Many pods fail, and little of them is looked at.
	if err := informer.SetTransform(func(obj any) (any, error) {
		pod, ok := obj.(*v1.Pod)
		if !ok {
			return obj, nil
		}
		return &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ResourceVersion: pod.ResourceVersion},
			Spec:       v1.PodSpec{NodeName: pod.Spec.NodeName},
			Status:     v1.PodStatus{Phase: pod.Status.Phase, Reason: pod.Status.Reason, Message: pod.Status.Message, Conditions: pod.Status.Conditions},
		}, nil
	}); err != nil {
		return fmt.Errorf("setting the transform of failed pods: %w", err)
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { g.failed(obj.(*v1.Pod)) }}); err != nil {
		return fmt.Errorf("watching failed pods: %w", err)
	}
	go informer.RunWithContext(ctx)
	return nil
}

func (g *guard) failed(pod *v1.Pod) {
	if pod.Spec.NodeName == "" || !clusterview.Rejected(pod) {
		return
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled && g.clock.Since(c.LastTransitionTime.Time) > freshConflict {
			return
		}
	}
	g.conflict(pod.Spec.NodeName, conflictRejected, fmt.Sprintf("its kubelet rejected pod %s/%s: %s", pod.Namespace, pod.Name, pod.Status.Reason))
}
