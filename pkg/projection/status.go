// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
)

// PodGroupResource is the CRD's.
var PodGroupResource = v1alpha1.SchemeGroupVersion.WithResource("podgroups")

// StatusWriter is the only writer of status.conditions of CRD PodGroups. The
// typed client has no such field, so it reads and writes by the dynamic one,
// with a JSON merge patch (CRDs take no strategic one). It writes in the
// background, the newest condition of each type, and only what changes. Where
// the CRD installed has no status.conditions the API server prunes them, and
// the write is without effect.
type StatusWriter struct {
	client dynamic.Interface
	queue  workqueue.TypedRateLimitingInterface[types.UID]

	mu      sync.Mutex
	pending map[types.UID]*pendingStatus
	// written is what this process last saw stored, to write nothing twice.
	written map[types.UID][]metav1.Condition
}

type pendingStatus struct {
	name       types.NamespacedName
	conditions []metav1.Condition
}

// NewStatusWriter makes one; it writes while Run runs.
func NewStatusWriter(client dynamic.Interface) *StatusWriter {
	return &StatusWriter{
		client: client,
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.UID](50*time.Millisecond, 30*time.Second)),
		pending: map[types.UID]*pendingStatus{},
		written: map[types.UID][]metav1.Condition{},
	}
}

// Set asks for a condition on the group. It never blocks on the API.
func (w *StatusWriter) Set(group *schedulingv1beta1.PodGroup, condition metav1.Condition) {
	condition.ObservedGeneration = group.Generation
	w.mu.Lock()
	defer w.mu.Unlock()
	status, ok := w.pending[group.UID]
	if !ok {
		status = &pendingStatus{name: types.NamespacedName{Namespace: group.Namespace, Name: group.Name}}
		w.pending[group.UID] = status
	}
	apimeta.SetStatusCondition(&status.conditions, condition)
	w.queue.Add(group.UID)
}

// Forget drops what is remembered of a deleted group.
func (w *StatusWriter) Forget(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pending, uid)
	delete(w.written, uid)
}

// Run writes with some workers until ctx ends.
func (w *StatusWriter) Run(ctx context.Context, workers int) {
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for w.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	w.queue.ShutDown()
	group.Wait()
}

func (w *StatusWriter) next(ctx context.Context) bool {
	uid, shutdown := w.queue.Get()
	if shutdown {
		return false
	}
	defer w.queue.Done(uid)
	if err := w.write(ctx, uid); err != nil {
		utilruntime.HandleErrorWithContext(ctx, err, "Failed to write the status of a pod group; retrying")
		w.queue.AddRateLimited(uid)
		return true
	}
	w.queue.Forget(uid)
	return true
}

func (w *StatusWriter) write(ctx context.Context, uid types.UID) error {
	status, stored, known := w.take(uid)
	if status == nil {
		return nil
	}
	groups := w.client.Resource(PodGroupResource).Namespace(status.name.Namespace)
	if !known {
		object, err := groups.Get(ctx, status.name.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || (err == nil && object.GetUID() != uid) {
			return nil // the group is gone, and its verdict with it
		}
		if err != nil {
			w.putBack(uid, status)
			return fmt.Errorf("reading pod group %s: %w", status.name, err)
		}
		stored = conditionsOf(object)
	}
	merged := append([]metav1.Condition(nil), stored...)
	for _, condition := range status.conditions {
		apimeta.SetStatusCondition(&merged, condition)
	}
	if apiequality.Semantic.DeepEqual(stored, merged) {
		w.remember(uid, stored)
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": uid},
		"status":   map[string]any{"conditions": merged},
	})
	if err != nil {
		return fmt.Errorf("encoding the status of pod group %s: %w", status.name, err)
	}
	_, err = groups.Patch(ctx, status.name.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err) {
		// Gone, or another object by this name: the uid in the patch differs.
		w.Forget(uid)
		return nil
	}
	if err != nil {
		w.putBack(uid, status)
		return fmt.Errorf("writing the status of pod group %s: %w", status.name, err)
	}
	w.remember(uid, merged)
	return nil
}

func (w *StatusWriter) take(uid types.UID) (*pendingStatus, []metav1.Condition, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	status := w.pending[uid]
	delete(w.pending, uid)
	stored, known := w.written[uid]
	return status, stored, known
}

// putBack restores what could not be written, under anything newer.
func (w *StatusWriter) putBack(uid types.UID, old *pendingStatus) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if newer := w.pending[uid]; newer != nil {
		for _, condition := range newer.conditions {
			apimeta.SetStatusCondition(&old.conditions, condition)
		}
	}
	w.pending[uid] = old
}

func (w *StatusWriter) remember(uid types.UID, conditions []metav1.Condition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.written[uid] = conditions
}

func conditionsOf(object *unstructured.Unstructured) []metav1.Condition {
	var status struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &status); err != nil {
		return nil // conditions of another shape than ours are written over
	}
	return status.Status.Conditions
}
