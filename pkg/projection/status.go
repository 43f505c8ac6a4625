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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
)

// The two kinds of PodGroup.
var (
	PodGroupResource = v1alpha1.SchemeGroupVersion.WithResource("podgroups")
	NativeResource   = schedulingv1beta1.SchemeGroupVersion.WithResource("podgroups")
)

// calm is how long counters may lag: pods start one by one, and a group's
// status is not worth a write for each of them. Conditions do not wait.
const calm = 2 * time.Second

// StatusWriter is the only writer of the status of PodGroups: of the conditions
// and, for those of the CRD, of phase and counters. The typed client of the CRD
// has no conditions, so it reads and writes by the dynamic one, with a JSON
// merge patch (CRDs take no strategic one). It writes in the background, the
// newest only, and only what changes. Where the CRD installed has no
// status.conditions the API server prunes them.
type StatusWriter struct {
	client    dynamic.Interface
	projector *Projector
	queue     workqueue.TypedRateLimitingInterface[types.UID]

	mu     sync.Mutex
	groups map[types.UID]*written
}

// written is what this process knows of one group's status.
type written struct {
	name     types.NamespacedName
	resource schema.GroupVersionResource
	// pending conditions wait to be written.
	pending []metav1.Condition
	// stored are the conditions of that version of the object, if it is known.
	stored  []metav1.Condition
	version string
}

// NewStatusWriter makes one; it writes while Run runs.
func NewStatusWriter(client dynamic.Interface, projector *Projector) *StatusWriter {
	w := &StatusWriter{
		client:    client,
		projector: projector,
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.UID](50*time.Millisecond, 30*time.Second)),
		groups: map[types.UID]*written{},
	}
	projector.changed = w.count
	return w
}

// Set asks for a condition on the group. It never blocks on the API.
func (w *StatusWriter) Set(group *schedulingv1beta1.PodGroup, condition metav1.Condition) {
	condition.ObservedGeneration = group.Generation
	w.mu.Lock()
	defer w.mu.Unlock()
	resource := PodGroupResource
	if group.APIVersion == nativeType.APIVersion {
		resource = NativeResource
	}
	status := w.group(group.UID, types.NamespacedName{Namespace: group.Namespace, Name: group.Name}, resource)
	apimeta.SetStatusCondition(&status.pending, condition)
	if resource == NativeResource {
		apimeta.SetStatusCondition(&status.pending, initially(condition))
	}
	w.queue.Add(group.UID)
}

// initially is the verdict in the words of the native API, which others read.
func initially(condition metav1.Condition) metav1.Condition {
	condition.Type = schedulingv1beta1.PodGroupInitiallyScheduled
	if condition.Status == metav1.ConditionTrue {
		condition.Reason = "Scheduled"
	} else {
		condition.Reason = schedulingv1beta1.PodGroupReasonUnschedulable
	}
	return condition
}

// count asks for the counters of a CRD's group, some time.
func (w *StatusWriter) count(name types.NamespacedName, uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.group(uid, name, PodGroupResource)
	w.queue.AddAfter(uid, calm)
}

// group returns what is known under the UID. Callers hold mu.
func (w *StatusWriter) group(uid types.UID, name types.NamespacedName, resource schema.GroupVersionResource) *written {
	status, ok := w.groups[uid]
	if !ok {
		status = &written{name: name, resource: resource}
		w.groups[uid] = status
	}
	return status
}

// Forget drops what is remembered of a deleted group.
func (w *StatusWriter) Forget(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.groups, uid)
}

// Run writes with some workers until ctx ends.
func (w *StatusWriter) Run(ctx context.Context, workers int) {
	work(ctx, w.queue, workers, w.next)
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

// write brings one group's status up to date.
func (w *StatusWriter) write(ctx context.Context, uid types.UID) error {
	w.mu.Lock()
	status, ok := w.groups[uid]
	if !ok {
		w.mu.Unlock()
		return nil
	}
	now := *status
	status.pending = nil
	w.mu.Unlock()

	err := w.bring(ctx, uid, &now)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.putBack(uid, now.pending)
		return fmt.Errorf("writing the status of pod group %s: %w", now.name, err)
	}
	if status, ok := w.groups[uid]; ok {
		status.stored, status.version = now.stored, now.version
	}
	return nil
}

// bring writes what differs, and updates now by what the API answered.
func (w *StatusWriter) bring(ctx context.Context, uid types.UID, now *written) error {
	groups := w.client.Resource(now.resource).Namespace(now.name.Namespace)
	for {
		fields := map[string]any{}
		if now.resource == PodGroupResource {
			fields = w.counters(now.name, uid)
		}
		metadata := map[string]any{"uid": uid}
		if len(now.pending) > 0 {
			if gone, err := w.read(ctx, groups, uid, now); err != nil || gone {
				return err
			}
			if merged := merge(now.stored, now.pending); !apiequality.Semantic.DeepEqual(now.stored, merged) {
				fields["conditions"] = merged
				metadata["resourceVersion"] = now.version // what others wrote since is not lost
			}
		}
		if len(fields) == 0 {
			return nil
		}
		patch, err := json.Marshal(map[string]any{"metadata": metadata, "status": fields})
		if err != nil {
			return err
		}
		object, err := groups.Patch(ctx, now.name.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
		switch {
		case err == nil:
			conditions, _ := fields["conditions"].([]metav1.Condition)
			now.remember(object, conditions)
			return nil
		case apierrors.IsNotFound(err):
			w.Forget(uid)
			return nil
		case apierrors.IsInvalid(err):
			return w.drop(ctx, groups, uid, now, err)
		case apierrors.IsConflict(err) && now.version != "":
			now.version = "" // somebody else wrote: read it again
		case apierrors.IsConflict(err):
			w.Forget(uid)
			return nil
		default:
			return err
		}
	}
}

// drop gives up what the API server calls invalid: it is another object by this name, as
// the uid in the patch differs, or it would be refused the next time as well.
func (w *StatusWriter) drop(ctx context.Context, groups dynamic.ResourceInterface, uid types.UID, now *written, why error) error {
	now.version = ""
	gone, err := w.read(ctx, groups, uid, now)
	if err == nil && !gone {
		klog.FromContext(ctx).Error(why, "The API server refuses the status of a pod group", "podGroup", klog.KRef(now.name.Namespace, now.name.Name))
	}
	return err
}

// remember takes note of what the API server answered to a write of these
// conditions, if any.
func (now *written) remember(object *unstructured.Unstructured, conditions []metav1.Condition) {
	if conditions != nil {
		now.stored = conditions
	}
	if kept := conditionsOf(object); len(kept) > 0 { // a CRD without conditions keeps none
		now.stored = kept
	}
	now.version = object.GetResourceVersion()
}

// read learns what is stored. True when the group is gone, and its verdict with
// it.
func (w *StatusWriter) read(ctx context.Context, groups dynamic.ResourceInterface, uid types.UID, now *written) (gone bool, err error) {
	if now.version != "" {
		return false, nil // it is known
	}
	object, err := groups.Get(ctx, now.name.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || (err == nil && object.GetUID() != uid) {
		w.Forget(uid)
		return true, nil
	}
	if err != nil {
		return false, err
	}
	now.stored, now.version = conditionsOf(object), object.GetResourceVersion()
	return false, nil
}

// counters are the fields of the status, beside the conditions, that differ from
// what the informer has seen.
func (w *StatusWriter) counters(name types.NamespacedName, uid types.UID) map[string]any {
	fields := map[string]any{}
	want, object, ok := w.projector.statusOf(name, uid)
	if !ok {
		return fields
	}
	for field, values := range map[string][2]any{
		"phase":      {want.Phase, object.Status.Phase},
		"occupiedBy": {want.OccupiedBy, object.Status.OccupiedBy},
		"running":    {want.Running, object.Status.Running},
		"succeeded":  {want.Succeeded, object.Status.Succeeded},
		"failed":     {want.Failed, object.Status.Failed},
	} {
		if values[0] != values[1] {
			fields[field] = values[0]
		}
	}
	return fields
}

// merge puts the conditions among those stored.
func merge(stored, pending []metav1.Condition) []metav1.Condition {
	merged := append([]metav1.Condition(nil), stored...)
	for _, condition := range pending {
		old := apimeta.FindStatusCondition(merged, condition.Type)
		if condition.Type == schedulingv1beta1.PodGroupInitiallyScheduled && old != nil && old.Status == metav1.ConditionTrue {
			continue // by the API's word it never goes back from True
		}
		apimeta.SetStatusCondition(&merged, condition)
	}
	return merged
}

// putBack restores what could not be written, under anything newer. Callers
// hold mu.
func (w *StatusWriter) putBack(uid types.UID, old []metav1.Condition) {
	status, ok := w.groups[uid]
	if !ok {
		return
	}
	for _, condition := range status.pending {
		apimeta.SetStatusCondition(&old, condition)
	}
	status.pending = old
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
