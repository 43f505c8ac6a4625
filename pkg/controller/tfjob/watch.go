// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	tfjobs "github.com/tutti-project/tutti/pkg/generated/informers/externalversions"
)

// settle is how long a job waits for more news of its objects before it is reconciled: a gang's pods change state by the
// hundred, and one look at all of them costs as much as one look at each.
const settle = 100 * time.Millisecond

// withoutManagedFields leaves out of the caches what is half of every object and nobody here reads.
func withoutManagedFields(obj any) (any, error) {
	if o, ok := obj.(metav1.Object); ok {
		o.SetManagedFields(nil)
	}
	return obj, nil
}

type factory interface {
	Start(stop <-chan struct{})
}

// watch sets up the informers. Only what bears the controller's label is cached, so other pods of the cluster cost nothing.
func (c *Controller) watch() error {
	own := func(list *metav1.ListOptions) {
		list.LabelSelector = kubeflowv1.OperatorNameLabel + "=" + kubeflowv1.TFJobControllerName
	}
	jobs := tfjobs.NewSharedInformerFactoryWithOptions(c.clients.TFJobs, 0,
		tfjobs.WithNamespace(c.options.Namespace), tfjobs.WithTransform(withoutManagedFields))
	objects := informers.NewSharedInformerFactoryWithOptions(c.clients.Kube, 0,
		informers.WithNamespace(c.options.Namespace), informers.WithTweakListOptions(own),
		informers.WithTransform(withoutManagedFields))
	c.factories = []factory{jobs, objects}

	c.jobs = jobs.Kubeflow().V1().TFJobs().Lister()
	err := c.watchJobs(jobs.Kubeflow().V1().TFJobs().Informer())
	if err == nil {
		c.pods, err = c.watchObjects(objects.Core().V1().Pods().Informer(), kindPod)
	}
	if err == nil {
		c.services, err = c.watchObjects(objects.Core().V1().Services().Informer(), kindService)
	}
	if err == nil && c.options.PodGroups != nil {
		groups, informer := c.options.PodGroups.watch(c.clients, c.options.Namespace, own)
		c.factories = append(c.factories, groups)
		c.groups, err = c.watchObjects(informer, kindPodGroup)
	}
	return err
}

func (c *Controller) watchJobs(informer cache.SharedIndexInformer) error {
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.jobChanged(nil, obj) },
		UpdateFunc: func(before, after any) { c.jobChanged(before, after) },
		DeleteFunc: func(obj any) { c.jobGone(obj) },
	})
	if err != nil {
		return fmt.Errorf("watching TFJobs: %w", err)
	}
	c.synced = append(c.synced, registration.HasSynced)
	return nil
}

func (c *Controller) jobChanged(before, after any) {
	job, ok := after.(*kubeflowv1.TFJob)
	if !ok {
		return
	}
	c.countChange(before, job)
	// A job deleted and made again may show as one update.
	if old, ok := before.(*kubeflowv1.TFJob); ok && old.UID != job.UID {
		c.ledger.close(old.UID)
	}
	if c.leading.Load() {
		c.queue.Add(types.NamespacedName{Namespace: job.Namespace, Name: job.Name})
	}
}

func (c *Controller) jobGone(obj any) {
	if job, ok := last(obj).(*kubeflowv1.TFJob); ok {
		c.countDeletion(job)
		c.ledger.close(job.UID)
	}
}

func (c *Controller) watchObjects(informer cache.SharedIndexInformer, kind string) (cache.Indexer, error) {
	registration, handlerErr := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.objectChanged(kind, nil, obj) },
		UpdateFunc: func(before, after any) { c.objectChanged(kind, before, after) },
		DeleteFunc: func(obj any) { c.objectGone(kind, obj) },
	})
	if err := errors.Join(handlerErr, informer.AddIndexers(indexers)); err != nil {
		return nil, fmt.Errorf("watching objects of kind %s: %w", kind, err)
	}
	c.synced = append(c.synced, registration.HasSynced)
	return informer.GetIndexer(), nil
}

// objectChanged settles what the ledger was waiting to see, and looks at the job again if anything that matters has changed.
func (c *Controller) objectChanged(kind string, before, after any) {
	o, ok := after.(metav1.Object)
	if !ok {
		return
	}
	if old, ok := before.(metav1.Object); ok && old.GetUID() != o.GetUID() {
		c.objectGone(kind, before)
	} else if ok && old.GetResourceVersion() == o.GetResourceVersion() {
		return
	}
	c.wake(o, func(job types.UID) {
		c.ledger.strike(job, creation(kind, o.GetName()))
		if o.GetDeletionTimestamp() != nil {
			c.ledger.strike(job, deletion(kind, o.GetUID()))
		}
	})
}

func (c *Controller) objectGone(kind string, obj any) {
	o, ok := last(obj).(metav1.Object)
	if !ok {
		return
	}
	c.wake(o, func(job types.UID) {
		c.ledger.strike(job, creation(kind, o.GetName()))
		c.ledger.strike(job, deletion(kind, o.GetUID()))
		if pod, ok := o.(*corev1.Pod); ok {
			c.ledger.witness(job, pod, c.isGoingOn(pod, job))
		}
	})
}

// wake brings the job of an object back into the queue, if this process leads. It goes by the job's name: what a former job of that name
// leaves behind is what the present one waits for, and an object without a job may be the present one's to adopt.
func (c *Controller) wake(o metav1.Object, settleLedger func(job types.UID)) {
	job := o.GetLabels()[kubeflowv1.JobNameLabel]
	if ref := jobReference(o); ref != nil {
		settleLedger(ref.UID)
		job = ref.Name
	}
	if job != "" && c.leading.Load() {
		c.queue.AddAfter(types.NamespacedName{Namespace: o.GetNamespace(), Name: job}, settle)
	}
}

// jobReference is the reference to the TFJob that controls an object, or nil.
func jobReference(o metav1.Object) *metav1.OwnerReference {
	ref := metav1.GetControllerOf(o)
	if ref == nil || ref.Kind != kubeflowv1.TFJobKind {
		return nil
	}
	if gv, err := schema.ParseGroupVersion(ref.APIVersion); err != nil || gv.Group != kubeflowv1.GroupName {
		return nil
	}
	return ref
}

// isGoingOn tells whether the job that owns an object exists and has not ended.
func (c *Controller) isGoingOn(o metav1.Object, owner types.UID) bool {
	job, err := c.jobs.TFJobs(o.GetNamespace()).Get(metav1.GetControllerOf(o).Name)
	return err == nil && job.UID == owner && !isFinished(&job.Status)
}

// last is the last known state of a deleted object; a relist that missed the deletion wraps it.
func last(obj any) any {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		return unknown.Obj
	}
	return obj
}
