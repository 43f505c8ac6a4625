// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// Whose is an object that bears a name of the job's?
//
//	controlled by   labels match   then it is
//	this job        yes            the job's
//	this job        no             released: somebody took it out of the job
//	nobody          yes            adopted
//	nobody          no             another's, and its name is taken
//	another UID     whatever       another's, and its name is taken
//
// A PodGroup is the job's by its UID alone: training-operator gave it no labels, and nobody takes it out of a job by them. Labels that
// it lacks are added.
//
// A name that is taken is asked for again when it has become free. An orphan is only adopted under a name that the job would give.

// claimed is an object whose owner is to change.
type claimed struct {
	kind   string
	object metav1.Object
}

// claim completes a view by what is not the job's and bears a name that it needs.
func (c *Controller) claim(v *view) error {
	for _, s := range v.slots() {
		if name := s.name(v.job); v.pods[name] == nil {
			if err := v.claimName(c.pods, kindPod, address{name, &s}); err != nil {
				return err
			}
		}
	}
	for _, a := range v.addresses() {
		if v.services[a.name] == nil {
			if err := v.claimName(c.services, kindService, a); err != nil {
				return err
			}
		}
	}
	if c.groups != nil && v.groups[v.job.Name] == nil {
		return v.claimName(c.groups, kindPodGroup, address{name: v.job.Name})
	}
	return nil
}

func (v *view) claimName(objects cache.Indexer, kind string, of address) error {
	item, exists, err := objects.GetByKey(v.job.Namespace + "/" + of.name)
	if err != nil {
		return fmt.Errorf("looking up %s %s/%s: %w", strings.ToLower(kind), v.job.Namespace, of.name, err)
	}
	if !exists {
		return nil
	}
	o, ok := item.(metav1.Object)
	if !ok {
		return nil
	}
	v.taken[creation(kind, of.name)] = true
	owner := metav1.GetControllerOf(o)
	switch {
	case owner == nil && o.GetDeletionTimestamp() == nil && hasLabels(o, of.labels(v.job)):
		v.adopt = append(v.adopt, claimed{kind, o})
	case owner != nil && owner.Name == v.job.Name && owner.Kind == kubeflowv1.TFJobKind:
		// Of a former job of this name: the garbage collector is on its way.
	case o.GetDeletionTimestamp() == nil:
		v.foreign = append(v.foreign, claimed{kind, o})
	}
	return nil
}

func hasLabels(o metav1.Object, labels map[string]string) bool {
	for key, value := range labels {
		if o.GetLabels()[key] != value {
			return false
		}
	}
	return true
}

// settleClaims adopts and releases.
func (c *Controller) settleClaims(ctx context.Context, v *view) error {
	return errors.Join(
		each(v.adopt, func(o claimed) error {
			return c.writeOwners(ctx, o, append(slices.Clone(o.object.GetOwnerReferences()), ownerReferences(v.job)...))
		}),
		each(v.strays, func(o claimed) error { return c.release(ctx, v, o) }),
	)
}

func (c *Controller) release(ctx context.Context, v *view, o claimed) error {
	return c.writeOwners(ctx, o, slices.DeleteFunc(slices.Clone(o.object.GetOwnerReferences()), func(ref metav1.OwnerReference) bool {
		return ref.UID == v.job.UID
	}))
}

// writeOwners replaces the owner references of the very object that was seen. If it has changed since, it is looked at again.
func (c *Controller) writeOwners(ctx context.Context, o claimed, owners []metav1.OwnerReference) error {
	name, namespace := o.object.GetName(), o.object.GetNamespace()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": o.object.GetUID(), "resourceVersion": o.object.GetResourceVersion(), "ownerReferences": owners,
	}})
	if err != nil {
		return err
	}
	switch o.kind {
	case kindPod:
		_, err = c.clients.Kube.CoreV1().Pods(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	case kindService:
		_, err = c.clients.Kube.CoreV1().Services(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	case kindPodGroup:
		_, err = c.options.PodGroups.client(c.clients, namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err) {
		return nil // it is another object by now, and its event is on the way
	}
	if err != nil {
		return fmt.Errorf("changing the owner of %s %s/%s: %w", strings.ToLower(o.kind), namespace, name, err)
	}
	return nil
}

// errTaken: a name that the job needs is another object's. Somebody has to do something about it, so there is no hurry.
var errTaken = errors.New("an object of this name exists that does not belong to the job")

// tellTaken says so once for each such object.
func (c *Controller) tellTaken(v *view, kind string, o metav1.Object) {
	if c.ledger.tell(v.job.UID, string(o.GetUID())) {
		c.send(v.stored, createFailed(kind, o.GetName(), errTaken))
	}
}

// isOwn tells whether an object is the job's and still bears its labels.
func isOwn(o metav1.Object, job *kubeflowv1.TFJob) bool {
	return belongsTo(o, job) && hasLabels(o, jobLabels(job))
}

func belongsTo(o metav1.Object, job *kubeflowv1.TFJob) bool {
	ref := metav1.GetControllerOf(o)
	return ref != nil && ref.UID == job.UID
}
