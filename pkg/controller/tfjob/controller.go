// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	podgroups "sigs.k8s.io/scheduler-plugins/pkg/generated/clientset/versioned"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	tfjobs "github.com/tutti-project/tutti/pkg/generated/clientset/versioned"
	listers "github.com/tutti-project/tutti/pkg/generated/listers/kubeflow/v1"
)

// Options are what a cluster's administrator decides.
type Options struct {
	// Namespace restricts the controller to one namespace; empty is all of them.
	Namespace string
	// SchedulerName goes to pods whose template names no scheduler.
	SchedulerName string
	// Domain is the cluster's DNS domain in TF_CONFIG; empty leaves it out.
	Domain string
	// PodGroups is the kind of PodGroup that is made per job, CRDPodGroups or NativePodGroups, and pods are marked as its members; nil is none.
	PodGroups *PodGroupKind
	// ServicePerJob: the pods of a job are found through one service, unless the job says otherwise. It spares large clusters a
	// service per pod; the addresses in TF_CONFIG are longer by the job's name.
	ServicePerJob bool
	// ForceDeleteLost is how long beyond its grace period a pod of a node that does not answer may take to go before it is deleted by
	// force and replaced, unless its restart policy is Never. 0 waits for the node. Such a node may still run the pod, so training may
	// meet two of one rank for a while.
	ForceDeleteLost time.Duration
}

// Clients talk to the API server.
type Clients struct {
	Kube      kubernetes.Interface
	TFJobs    tfjobs.Interface
	PodGroups podgroups.Interface
}

// Controller reconciles TFJobs.
type Controller struct {
	clients  Clients
	options  Options
	recorder record.EventRecorder
	now      func() time.Time

	jobs     listers.TFJobLister
	pods     cache.Indexer
	services cache.Indexer
	groups   cache.Indexer // nil without PodGroups

	ledger *ledger
	queue  workqueue.TypedRateLimitingInterface[types.NamespacedName]

	factories []factory
	synced    []cache.InformerSynced

	// leading is true from the beginning of Run. A process that stands by puts nothing into its queue: nobody would take it out.
	leading atomic.Bool
	pruned  sync.Once // tells that the schema of jobs is not ours
}

const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 30 * time.Second
	// takenRetry is how long a name that is another's is left alone. Most are seen to become free before.
	takenRetry = 10 * time.Second
)

// New makes a controller; Start and then Run make it work.
func New(clients Clients, options Options, recorder record.EventRecorder, now func() time.Time) (*Controller, error) {
	c := &Controller{
		clients:  clients,
		options:  options,
		recorder: recorder,
		now:      now,
		ledger:   newLedger(),
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](firstRetry, lastRetry),
			workqueue.TypedRateLimitingQueueConfig[types.NamespacedName]{Name: kubeflowv1.TFJobControllerName},
		),
	}
	return c, c.watch()
}

// Start fills the caches. It returns at once; HasSynced tells when they are filled.
func (c *Controller) Start(ctx context.Context) {
	for _, f := range c.factories {
		f.Start(ctx.Done())
	}
}

// HasSynced tells whether all caches have been filled once.
func (c *Controller) HasSynced() bool {
	for _, synced := range c.synced {
		if !synced() {
			return false
		}
	}
	return true
}

// Run reconciles jobs, threads of them at a time, until ctx is done, and returns when the last reconcile has ended. It begins with all jobs
// there are.
func (c *Controller) Run(ctx context.Context, threads int) {
	c.leading.Store(true)
	logger := klog.FromContext(ctx)
	logger.Info("Waiting for the caches")
	if !cache.WaitForCacheSync(ctx.Done(), c.synced...) {
		return // told to stop
	}
	// What changed while nothing was put into the queue is in the caches, for they see it before the handlers do.
	jobs, err := c.jobs.List(labels.Everything())
	if err != nil {
		logger.Error(err, "Listing the cached TFJobs")
		return
	}
	for _, job := range jobs {
		c.queue.Add(types.NamespacedName{Namespace: job.Namespace, Name: job.Name})
	}
	logger.Info("Reconciling TFJobs", "jobs", len(jobs), "threads", threads)
	var workers sync.WaitGroup
	for range threads {
		workers.Go(func() {
			for c.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	c.queue.ShutDown()
	workers.Wait()
	logger.Info("Stopped reconciling TFJobs")
}

// next reconciles one job of the queue and tells whether there may be more.
func (c *Controller) next(ctx context.Context) bool {
	key, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(key)
	if ctx.Err() != nil {
		return false
	}
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "tfjob", klog.KRef(key.Namespace, key.Name))
	after, err := c.reconcile(klog.NewContext(ctx, logger), key)
	switch {
	case err == nil:
		c.queue.Forget(key)
		if after > 0 {
			c.queue.AddAfter(key, after)
		}
	case errors.Is(err, errOutOfDate) || apierrors.IsConflict(err):
		logger.V(4).Info("Trying again with a newer view", "reason", err.Error())
		c.queue.AddRateLimited(key)
	case errors.Is(err, errTaken):
		logger.V(2).Info("Waiting for a name to become free", "reason", err.Error())
		c.queue.Forget(key)
		c.queue.AddAfter(key, takenRetry)
	case errors.Is(err, errNamespaceTerminating):
		logger.V(2).Info("Left alone", "reason", err.Error())
		c.queue.Forget(key)
	default:
		logger.Error(err, "Reconcile failed, trying again")
		c.queue.AddRateLimited(key)
	}
	return true
}

// reconcile is gather, decide, report, act.
func (c *Controller) reconcile(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	stored, err := c.jobs.TFJobs(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("looking up TFJob %s: %w", key, err)
	}
	if isManagedElsewhere(stored) || stored.DeletionTimestamp != nil {
		return 0, nil
	}
	now := c.now()
	v, err := c.gather(stored, now)
	if err != nil {
		return 0, err
	}
	for _, o := range v.foreign {
		c.tellTaken(v, o.kind, o.object)
	}
	c.tellTroubles(v)
	p := decide(v, c.options, now)
	if p.complaint != "" && c.ledger.tell(v.job.UID, p.complaint) {
		c.send(v.stored, editNotCarriedOut(p.complaint))
	}
	written, err := c.report(ctx, v, p)
	if err != nil || p.isIdle() && len(v.adopt) == 0 && len(v.strays) == 0 {
		return p.after, err
	}
	if !written {
		if err := c.confirm(ctx, v); err != nil {
			return 0, err
		}
	}
	return p.after, c.act(ctx, v, p)
}

// isManagedElsewhere: such a job is not to be touched at all, its status included.
func isManagedElsewhere(job *kubeflowv1.TFJob) bool {
	by := job.Spec.RunPolicy.ManagedBy
	return by != nil && *by != "" && *by != kubeflowv1.ManagedByTrainingOperator
}
