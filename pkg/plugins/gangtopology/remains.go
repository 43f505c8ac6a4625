// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/utils/clock"

	"github.com/tutti-project/tutti/pkg/clusterview"
)

const (
	// remainsCheck is how often marked pods are looked at that nobody evicts.
	remainsCheck = time.Second
	// A mark is good for staleMark: after that kube-controller-manager takes it
	// back from a pod that was not deleted.
	staleMark = 2 * time.Minute
)

// remains are gangs of which a preemption has taken a part and left the rest:
// whoever evicted it died, or was refused a request. Victims are marked before
// the first of them goes (evict.go), so what is left says so itself: the gang has
// less than its minimum, and pods that are marked. It is evicted whole. A marked
// gang that has its minimum has lost nothing yet, and whether it has to go is the
// preemptor's next decision.
type remains struct {
	evictor *evictor
	groups  fwk.PodGroupManager
	clock   clock.PassiveClock
	// again is called when a gang that went may be planned.
	again func(types.NamespacedName)

	mu     sync.Mutex
	marked map[types.UID]*v1.Pod // on nodes, and not being deleted
	// left is when gangs were marked of which marked pods have gone, or are going.
	left map[types.NamespacedName]time.Time
}

func newRemains(evictor *evictor, handle fwk.Handle, clock clock.PassiveClock, again func(types.NamespacedName)) *remains {
	return &remains{evictor: evictor, groups: handle.PodGroupManager(), clock: clock, again: again,
		marked: map[types.UID]*v1.Pod{}, left: map[types.NamespacedName]time.Time{}}
}

func (r *remains) watch(pods cache.SharedIndexInformer) error {
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { r.see(obj.(*v1.Pod)) },
		UpdateFunc: func(_, obj any) { r.see(obj.(*v1.Pod)) },
		DeleteFunc: func(obj any) { r.forget(final[*v1.Pod](obj)) },
	})
	if err != nil {
		return fmt.Errorf("watching pods that are marked for a preemption: %w", err)
	}
	return nil
}

func (r *remains) see(pod *v1.Pod) {
	if pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil || !clusterview.IsPreempted(pod) {
		r.forget(pod)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.marked[pod.UID] = pod
}

func (r *remains) forget(pod *v1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.marked, pod.UID)
	if key, ok := clusterview.GangOf(pod); ok && pod.Spec.NodeName != "" && clusterview.IsPreempted(pod) {
		if at := markedAt(pod); at.After(r.left[key]) {
			r.left[key] = at
		}
	}
}

// begins is called when the gang is placed anew: what it has then is no remains.
func (r *remains) begins(key types.NamespacedName) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.left, key)
}

// goes tells whether the gang is being evicted whole.
func (r *remains) goes(key types.NamespacedName) bool {
	return r != nil && r.evictor.goes(key)
}

// has tells whether pods of the gang are marked.
func (r *remains) has(key types.NamespacedName) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, pod := range r.marked {
		if of, ok := clusterview.GangOf(pod); ok && of == key && r.fresh(pod) {
			return true
		}
	}
	return false
}

func (r *remains) fresh(pod *v1.Pod) bool { return r.clock.Since(markedAt(pod)) < staleMark }

// markedAt is when the pod was marked; zero if it is not.
func markedAt(pod *v1.Pod) time.Time {
	if _, mark := podutil.GetPodCondition(&pod.Status, v1.DisruptionTarget); mark != nil {
		return mark.LastTransitionTime.Time
	}
	return time.Time{}
}

// run finishes what was begun, until ctx ends.
func (r *remains) run(ctx context.Context) {
	wait.UntilWithContext(ctx, r.look, remainsCheck)
}

func (r *remains) look(ctx context.Context) {
	for key, example := range r.gangs() {
		r.finish(ctx, key, example)
	}
	for key, at := range r.gone() {
		r.follow(ctx, key, at)
	}
}

// gone are the gangs of which marked pods have gone lately, and when they were marked.
func (r *remains) gone() map[types.NamespacedName]time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.left, func(_ types.NamespacedName, at time.Time) bool { return r.clock.Since(at) >= staleMark })
	return maps.Clone(r.left)
}

// follow evicts what was bound of a gang when all others of it had gone: a scheduler had
// asked for that, and died before the answer came. It bears no mark, and is known by
// being bound a moment before its siblings were marked, or later, and made before. What
// is made anew is not, and a gang of which such a pod has a node, or that this process
// has placed since, is left to the planner.
func (r *remains) follow(ctx context.Context, key types.NamespacedName, marked time.Time) {
	group, err := r.groups.PodGroups().Get(key.Namespace, key.Name)
	if err != nil || r.evictor.goes(key) {
		return
	}
	late := r.evictor.members(key)
	if len(late) == 0 || len(late) >= quorumOf(group) {
		return
	}
	for _, pod := range late {
		_, bound := podutil.GetPodCondition(&pod.Status, v1.PodScheduled)
		if bound == nil || bound.Status != v1.ConditionTrue || bound.LastTransitionTime.Time.Before(marked.Add(-startsFor)) ||
			!pod.CreationTimestamp.Time.Before(marked) || clusterview.IsPreempted(pod) || r.evictor.has(pod.UID) {
			return
		}
	}
	r.evict(ctx, key, late, "")
}

// gangs are those with marked pods, and one of these; the ones that are being
// evicted come again until they have gone.
func (r *remains) gangs() map[types.NamespacedName]*v1.Pod {
	gangs := map[types.NamespacedName]*v1.Pod{}
	for _, key := range r.evictor.leaving() {
		gangs[key] = nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, pod := range r.marked {
		key, ok := clusterview.GangOf(pod)
		if known, goes := gangs[key]; ok && (goes || r.fresh(pod)) {
			if known == nil || pod.UID < known.UID {
				gangs[key] = pod
			}
		}
	}
	return gangs
}

// finish evicts what is left of the gang, if something is missing: victims that stay
// are marked, and whoever was bound beside them too late, with an order of this process,
// is not. The gang goes until its last pod is being deleted, as the informer has it:
// what was bound before that is known by then.
func (r *remains) finish(ctx context.Context, key types.NamespacedName, marked *v1.Pod) {
	if r.evictor.asks(key) || marked != nil && r.evictor.has(marked.UID) {
		return
	}
	begun := r.evictor.leave(key)
	victims := r.evictor.members(key)
	if begun && slices.ContainsFunc(victims, func(pod *v1.Pod) bool { return r.evictor.has(pod.UID) }) {
		return // the informer lags
	}
	if !r.torn(key, victims, begun) {
		r.evictor.stay(key)
		if begun {
			r.again(key)
		}
		return
	}
	why := ""
	if marked != nil {
		if _, mark := podutil.GetPodCondition(&marked.Status, v1.DisruptionTarget); mark != nil {
			why = mark.Message
		}
	}
	r.evict(ctx, key, victims, why)
}

func (r *remains) evict(ctx context.Context, key types.NamespacedName, victims []*v1.Pod, why string) {
	klog.FromContext(ctx).Info("Evicting what a preemption has left of a gang", "podGroup", klog.KRef(key.Namespace, key.Name), "pods", len(victims), "preemption", why)
	r.evictor.evict(order{
		preemptor: "the rest of gang " + key.String(), uid: types.UID("rest of " + key.String()), whole: []types.NamespacedName{key}, victims: victims,
		wake: func() {}, why: cmp.Or(why, "evicted with the rest of its gang"), what: preempted,
	})
}

// torn tells whether these, the pods of the gang that have nodes, are too few, and
// an eviction is why: some are marked, or it was this process's. Of a gang that has no
// PodGroup nobody knows how many it had: it is taken for torn when all that is left
// of it is marked, for then its eviction had begun.
func (r *remains) torn(key types.NamespacedName, on []*v1.Pod, begun bool) bool {
	marked := 0
	for _, pod := range on {
		if clusterview.IsPreempted(pod) {
			marked++
		}
	}
	group, err := r.groups.PodGroups().Get(key.Namespace, key.Name)
	if err != nil {
		return len(on) > 0 && (begun || marked == len(on))
	}
	return len(on) > 0 && (begun || marked > 0) && len(on) < quorumOf(group)
}
