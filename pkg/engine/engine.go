// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package engine is the scheduler as one value: kube-scheduler's engine, with
// Tutti's plugin in it and Tutti's projection between it and the API server.
// cmd/tutti-scheduler runs it on a cluster, pkg/whatif on a picture of one.
package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	schedulerserverconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/pkg/plugins/gangtopology"
	"github.com/tutti-project/tutti/pkg/projection"
)

// How many statuses of PodGroups, and of pods that were refused, are written at
// a time.
const (
	statusWriters  = 4
	refusalWriters = 8
)

// New makes the scheduler from a configuration, as cmd/kube-scheduler/app does,
// with the projection between the API server and the engine. It starts the
// projection's own informers; the engine's start when it runs. SetGates comes
// first in the process.
func New(ctx context.Context, config *schedulerserverconfig.Config, opts ...scheduler.Option) (*schedulerserverconfig.CompletedConfig, *scheduler.Scheduler, error) {
	if err := waitServed(ctx, config.Client.Discovery(), servedWithin); err != nil {
		return nil, nil, err
	}
	gangSchedulers, err := completeProfiles(config.ComponentConfig.Profiles)
	if err != nil {
		return nil, nil, err
	}
	leads := make(chan struct{})
	status, err := project(ctx, config, gangSchedulers, leads)
	if err != nil {
		return nil, nil, err
	}
	topologies, err := watchTopologies(ctx, config)
	if err != nil {
		return nil, nil, err
	}
	completed := config.Complete()
	registry := frameworkruntime.Registry{gangtopology.Name: gangtopology.Factory(status.Set, newRecorder(ctx, completed.Client), topologies, leads)}
	sched, err := scheduler.New(ctx, completed.Client, completed.InformerFactory, completed.DynInformerFactory,
		func(name string) events.EventRecorderLogger { return completed.EventBroadcaster.NewRecorder(name) },
		append([]scheduler.Option{
			scheduler.WithComponentConfigVersion(completed.ComponentConfig.TypeMeta.APIVersion),
			scheduler.WithKubeConfig(completed.KubeConfig),
			scheduler.WithProfiles(completed.ComponentConfig.Profiles...),
			scheduler.WithPercentageOfNodesToScore(completed.ComponentConfig.PercentageOfNodesToScore),
			scheduler.WithFrameworkOutOfTreeRegistry(registry),
			scheduler.WithPodMaxBackoffSeconds(completed.ComponentConfig.PodMaxBackoffSeconds),
			scheduler.WithPodInitialBackoffSeconds(completed.ComponentConfig.PodInitialBackoffSeconds),
			scheduler.WithPodMaxInUnschedulablePodsDuration(completed.PodMaxInUnschedulablePodsDuration),
			scheduler.WithExtenders(completed.ComponentConfig.Extenders...),
			scheduler.WithParallelism(completed.ComponentConfig.Parallelism),
		}, opts...)...)
	if err != nil {
		return nil, nil, fmt.Errorf("making the scheduler: %w", err)
	}
	sched.NextEntity = noting(leads, sched.NextEntity)
	return &completed, sched, nil
}

// noting closes leads when the engine first asks for something to schedule. It
// does so when this process leads; until then its informers run, and it only stands by.
func noting(leads chan struct{}, next func(klog.Logger) (framework.QueuedEntityInfo, error)) func(klog.Logger) (framework.QueuedEntityInfo, error) {
	begin := sync.OnceFunc(func() { close(leads) })
	return func(logger klog.Logger) (framework.QueuedEntityInfo, error) {
		begin()
		return next(logger)
	}
}

// newRecorder records the events of gangs.
func newRecorder(ctx context.Context, client kubernetes.Interface) record.EventRecorder {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events(metav1.NamespaceAll)})
	return broadcaster.NewRecorder(scheme.Scheme, v1.EventSource{Component: tutti.SchedulerName})
}

// servedWithin: an API server that was started together with this program, and
// definitions that were applied with it, take a moment. It is shorter than what
// the liveness probe allows.
const servedWithin = 30 * time.Second

// waitServed checks until the API server has what is needed, or returns what
// was missing to the last.
func waitServed(ctx context.Context, client discovery.DiscoveryInterface, limit time.Duration) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, limit/60, limit, true, func(ctx context.Context) (bool, error) {
		last = checkServed(ctx, client)
		return last == nil, nil
	})
	if err != nil {
		return cmp.Or(last, err)
	}
	return nil
}

// waitIsServed is isServed, asked again until there is an answer.
func waitIsServed(ctx context.Context, client discovery.DiscoveryInterface, resource schema.GroupVersionResource) (served bool, err error) {
	waited := wait.PollUntilContextTimeout(ctx, servedWithin/60, servedWithin, true, func(context.Context) (bool, error) {
		served, err = isServed(client, resource)
		return err == nil, nil
	})
	return served, cmp.Or(err, waited)
}

// checkServed asks the API server what it has.
func checkServed(ctx context.Context, client discovery.DiscoveryInterface) error {
	if err := turnOffUnserved(client, klog.FromContext(ctx)); err != nil {
		return err
	}
	served, err := isServed(client, projection.PodGroupResource)
	if err != nil {
		return err
	}
	if !served {
		return errors.New("the API server does not serve podgroups of scheduling.x-k8s.io/v1alpha1: install Tutti's CRDs first (kubectl apply --server-side -k manifests/crds)")
	}
	return nil
}

// project puts the projection between config's client and informers and the
// API server. What it writes by itself it writes when this process leads.
func project(ctx context.Context, config *schedulerserverconfig.Config, gangSchedulers sets.Set[string], leads <-chan struct{}) (*projection.StatusWriter, error) {
	laned := rest.CopyConfig(config.KubeConfig)
	laned.Wrap(newLanes().wrap)
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(laned, "scheduler"))
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	eventClient, err := kubernetes.NewForConfig(laned)
	if err != nil {
		return nil, fmt.Errorf("making a client for events: %w", err)
	}
	// The leader election's recorder belongs to the broadcaster made with it.
	config.EventBroadcaster.StartRecordingToSink(ctx.Done())
	config.EventBroadcaster = events.NewEventBroadcasterAdapterWithContext(ctx, eventClient)
	dynamicClient, err := dynamic.NewForConfig(config.KubeConfig)
	if err != nil {
		return nil, fmt.Errorf("making a dynamic client: %w", err)
	}
	projector := projection.NewProjector()
	status := projection.NewStatusWriter(dynamicClient, projector)
	membership := projection.NewMembership(gangSchedulers)
	refusals := projection.NewPodStatusWriter(client)
	config.Client = &projection.Client{Interface: client, Projector: projector, Membership: membership, Refusals: refusals}
	name, err := cache.NewInformerName(tutti.SchedulerName)
	if err != nil {
		return nil, fmt.Errorf("naming the informers: %w", err)
	}
	context.AfterFunc(ctx, name.Release) // so that a process can have one engine after another
	config.InformerFactory = scheduler.NewInformerFactory(config.Client, 0, name)
	pods := config.InformerFactory.Core().V1().Pods().Informer()
	config.InformerFactory.InformerFor(&schedulingv1beta1.PodGroup{},
		func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return projector.Informer() })
	if err := projector.WatchPods(pods, membership); err != nil {
		return nil, err
	}
	if err := startSources(ctx, config.KubeConfig, projector, status); err != nil {
		return nil, err
	}
	go projector.Run(ctx)
	go func() {
		select {
		case <-leads:
			status.Run(ctx, statusWriters)
		case <-ctx.Done():
		}
	}()
	go refusals.Run(ctx, refusalWriters)
	return status, nil
}
