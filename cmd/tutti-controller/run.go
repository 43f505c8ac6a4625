// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	podgroups "sigs.k8s.io/scheduler-plugins/pkg/generated/clientset/versioned"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	"github.com/tutti-project/tutti/pkg/controller/tfjob"
	tfjobs "github.com/tutti-project/tutti/pkg/generated/clientset/versioned"
)

// run works until ctx is done, and returns nil then. Caches are filled before the lease is won, so that a standby takes over at once.
func run(ctx context.Context, o *options) error {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return fmt.Errorf("finding the API server: %w", err)
	}
	rest.AddUserAgent(config, "tutti-controller")
	config.DisableCompression = true // the API server is near; packing what it sends, TF_CONFIGs above all, costs both sides more than the wire
	clients, err := newClients(config, o)
	if err != nil {
		return err
	}
	tfJobs := kubeflowv1.SchemeGroupVersion.WithResource(kubeflowv1.TFJobPlural)
	if err := waitUntilServed(ctx, clients.Kube.Discovery(), tfJobs, areTheyInstalled); err != nil || ctx.Err() != nil {
		return err
	}
	groups, err := podGroupKind(ctx, clients.Kube, o)
	if err != nil || ctx.Err() != nil {
		return err
	}
	recorder, flush, err := newRecorder(ctx, config)
	if err != nil {
		return err
	}
	defer flush()
	controller, err := tfjob.New(clients, tfjob.Options{
		Namespace:     o.namespace,
		SchedulerName: o.schedulerName,
		Domain:        o.domain,
		PodGroups:     groups,
		ServicePerJob: o.servicePerJob,

		ForceDeleteLost: o.forceDelete,
	}, recorder, time.Now)
	if err != nil {
		return err
	}
	watchdog := newWatchdog()
	synced := func() error {
		if !controller.HasSynced() {
			return errors.New("the caches are being filled")
		}
		return nil
	}
	if err := o.serving.ServeProbes(ctx, watchdog.Check, synced); err != nil {
		return err
	}
	tfjob.RegisterMetrics(cmp.Or(o.namespace, metav1.NamespaceDefault))
	if err := o.serving.ServeMetrics(ctx, config, "tutti-controller"); err != nil {
		return err
	}
	controller.Start(ctx)
	work := func(ctx context.Context) { controller.Run(ctx, o.threads) }
	if !o.leaderElect {
		work(ctx)
		return nil
	}
	lock, err := newLock(config, o)
	if err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Waiting for the lease", "lease", klog.KRef(o.leaseNamespace, o.leaseName))
	return lead(ctx, lock, watchdog, work)
}

// newClients shares one budget of requests among the clients of the controller; events and the lease have their own, so that a
// thousand pods to create cannot cost the lease.
func newClients(config *rest.Config, o *options) (clients tfjob.Clients, err error) {
	config = rest.CopyConfig(config)
	config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(o.qps, o.burst)
	core := rest.CopyConfig(config)
	core.ContentType = runtime.ContentTypeProtobuf
	core.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	if clients.Kube, err = kubernetes.NewForConfig(core); err != nil {
		return clients, fmt.Errorf("making a client: %w", err)
	}
	if clients.TFJobs, err = tfjobs.NewForConfig(config); err != nil {
		return clients, fmt.Errorf("making a client for TFJobs: %w", err)
	}
	if clients.PodGroups, err = podgroups.NewForConfig(config); err != nil {
		return clients, fmt.Errorf("making a client for PodGroups: %w", err)
	}
	return clients, nil
}

// Events tell people what happened: soon, but not at the cost of what is to happen.
const (
	eventsPerSecond = 20
	eventsAtOnce    = 100
)

// newRecorder sends events about TFJobs. A job of many pods has many events of one reason; those must not use up the allowance of the
// others, so each reason has its own.
func newRecorder(ctx context.Context, config *rest.Config) (recorder record.EventRecorder, flush func(), err error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = eventsPerSecond, eventsAtOnce
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("making a client for events: %w", err)
	}
	scheme := runtime.NewScheme()
	if err := kubeflowv1.AddToScheme(scheme); err != nil {
		return nil, nil, fmt.Errorf("registering the TFJob types: %w", err)
	}
	perReason := record.CorrelatorOptions{SpamKeyFunc: func(e *corev1.Event) string {
		return string(e.InvolvedObject.UID) + "/" + e.Reason
	}}
	// The broadcaster outlives ctx by the events of the last reconciles.
	broadcaster := record.NewBroadcaster(record.WithContext(context.WithoutCancel(ctx)), record.WithCorrelatorOptions(perReason))
	broadcaster.StartStructuredLogging(4)
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	return broadcaster.NewRecorder(scheme, corev1.EventSource{Component: kubeflowv1.TFJobControllerName}), broadcaster.Shutdown, nil
}
