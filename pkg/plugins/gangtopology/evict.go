// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/tutti-project/tutti/pkg/clusterview"
)

const (
	// evictionsInFlight bounds the pods of one preemptor that are evicted at a time.
	evictionsInFlight = 16
	// evictionPatience bounds the requests of one order. What is left then is
	// decided anew.
	evictionPatience = time.Minute
)

// evictor deletes victims, each with the condition that says why. It remembers
// no decision: when it dies, or a request fails, the next cycle of the preemptor
// finds those who leave and decides about the rest again.
type evictor struct {
	client kubernetes.Interface
	pods   corev1listers.PodLister
	events record.EventRecorder

	mu     sync.Mutex
	orders map[types.UID]*order // by preemptor
}

// order is what is evicted for one preemptor.
type order struct {
	preemptor string
	uid       types.UID
	priority  int32
	pods      []*v1.Pod
	units     []clusterview.Unit
	victims   []*v1.Pod
	wake      func()
	until     time.Time

	left map[types.UID]bool
}

// busy tells whether victims of the preemptor have not gone yet.
func (e *evictor) busy(uid types.UID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.orders[uid] != nil
}

// evict begins; it does not wait.
func (e *evictor) evict(o order) {
	o.left = map[types.UID]bool{}
	for _, pod := range o.victims {
		o.left[pod.UID] = true
	}
	e.mu.Lock()
	if before := e.orders[o.uid]; before != nil {
		for uid := range before.left {
			o.left[uid] = true
		}
	}
	e.orders[o.uid] = &o
	e.mu.Unlock()
	count(o)
	go e.carryOut(&o)
}

func (e *evictor) carryOut(o *order) {
	ctx, cancel := context.WithTimeout(context.Background(), evictionPatience)
	defer cancel()
	logger := klog.Background().WithValues("preemptor", o.preemptor)
	if !e.wanted(o) {
		e.close(o)
		return
	}
	logger.V(2).Info("Evicting pods", "victims", klog.KObjSlice(o.victims))
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(evictionsInFlight)
	for _, pod := range o.victims {
		group.Go(func() error { return e.evictPod(groupCtx, o, pod) })
	}
	if err := group.Wait(); err != nil {
		logger.Error(err, "Some pods could not be evicted; deciding anew")
		e.close(o)
		o.wake()
	}
}

// wanted tells whether anybody is there still for whom to evict.
func (e *evictor) wanted(o *order) bool {
	for _, pod := range o.pods {
		if current, err := e.pods.Pods(pod.Namespace).Get(pod.Name); err == nil && current.UID == pod.UID &&
			current.DeletionTimestamp == nil && current.Spec.NodeName == "" {
			return true
		}
	}
	return false
}

func (e *evictor) evictPod(ctx context.Context, o *order, pod *v1.Pod) error {
	err := e.mark(ctx, o, pod)
	if err == nil {
		err = retry.OnError(retry.DefaultBackoff, util.Retriable, func() error {
			return e.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
		})
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // it has gone, and another one may bear its name
		e.gone(pod)
		return nil
	}
	if err != nil {
		return fmt.Errorf("evicting pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	e.events.Event(pod, v1.EventTypeNormal, "Preempted", fmt.Sprintf("evicted for %s of priority %d", o.preemptor, o.priority))
	return nil
}

// mark says on the pod why it goes. The UID keeps the patch from another pod of
// its name, the one that replaces it.
func (e *evictor) mark(ctx context.Context, o *order, pod *v1.Pod) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status": map[string]any{"conditions": []v1.PodCondition{{
			Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler,
			ObservedGeneration: pod.Generation, LastTransitionTime: metav1.Now(),
			Message: fmt.Sprintf("evicted for %s of priority %d", o.preemptor, o.priority),
		}}},
	})
	if err != nil {
		return fmt.Errorf("making the condition of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return retry.OnError(retry.DefaultBackoff, util.Retriable, func() error {
		_, err := e.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	})
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

func (e *evictor) close(o *order) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.orders[o.uid] == o {
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
