// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
	schedulerserverconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	podgroupclient "sigs.k8s.io/scheduler-plugins/pkg/generated/clientset/versioned"

	"github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/pkg/clusterview"
	"github.com/tutti-project/tutti/pkg/controller/tfjob"
	"github.com/tutti-project/tutti/pkg/engine"
	tfjobclient "github.com/tutti-project/tutti/pkg/generated/clientset/versioned"
	"github.com/tutti-project/tutti/pkg/snapshot"
)

var (
	podKind   = known(corev1.SchemeGroupVersion.WithKind("Pod"))
	groupKind = known(schema.GroupVersionKind{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Kind: "PodGroup"})
	jobKind   = known(schema.GroupVersionKind{Group: "kubeflow.org", Version: "v1", Kind: "TFJob"})
)

func known(gvk schema.GroupVersionKind) snapshot.Kind {
	k, ok := snapshot.KindOf(gvk)
	if !ok {
		panic("snapshots have no " + gvk.String())
	}
	return k
}

func requestsOf(pod *corev1.Pod) map[string]int64 { return clusterview.RequestOf(pod) }

// start runs the programs until ctx is done; wait returns when they have ended.
func (w *world) start(ctx context.Context, options Options) (wait func(), err error) {
	var running sync.WaitGroup
	if err := w.startScheduler(ctx, options, &running); err != nil {
		return nil, err
	}
	if w.target.Job.Name != "" {
		if err := w.startController(ctx, options.Now, &running); err != nil {
			return nil, err
		}
	}
	return running.Wait, nil
}

func (w *world) startScheduler(ctx context.Context, options Options, running *sync.WaitGroup) error {
	config := options.Config
	if config == nil {
		var err error
		if config, err = engine.DefaultConfiguration(); err != nil {
			return err
		}
	}
	client, err := kubernetes.NewForConfig(w.config())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	dynamicClient, err := dynamic.NewForConfig(w.config())
	if err != nil {
		return fmt.Errorf("making a dynamic client: %w", err)
	}
	own := config.DeepCopy()
	own.Extenders = nil // they are programs of the cluster, and may act
	completed, sched, err := engine.New(ctx, &schedulerserverconfig.Config{
		ComponentConfig:    *own,
		Client:             client,
		KubeConfig:         w.config(),
		DynInformerFactory: dynamicinformer.NewFilteredDynamicSharedInformerFactory(dynamicClient, 0, metav1.NamespaceAll, nil),
		EventBroadcaster:   events.NewEventBroadcasterAdapterWithContext(ctx, client),
	})
	if err != nil {
		return err
	}
	completed.InformerFactory.Start(ctx.Done())
	completed.DynInformerFactory.Start(ctx.Done())
	completed.InformerFactory.WaitForCacheSync(ctx.Done())
	completed.DynInformerFactory.WaitForCacheSync(ctx.Done())
	if err := sched.WaitForHandlersSync(ctx); err != nil {
		return fmt.Errorf("filling the scheduler's caches: %w", err)
	}
	running.Go(func() {
		sched.Run(ctx)
		completed.InformerFactory.Shutdown()
		completed.DynInformerFactory.Shutdown()
		completed.EventBroadcaster.Shutdown()
	})
	return nil
}

// startController makes the job's gang and pods as the cluster's controller
// would.
func (w *world) startController(ctx context.Context, now func() time.Time, running *sync.WaitGroup) error {
	var clients tfjob.Clients
	var err error
	if clients.Kube, err = kubernetes.NewForConfig(w.config()); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if clients.TFJobs, err = tfjobclient.NewForConfig(w.config()); err != nil {
		return fmt.Errorf("making a client for jobs: %w", err)
	}
	if clients.PodGroups, err = podgroupclient.NewForConfig(w.config()); err != nil {
		return fmt.Errorf("making a client for pod groups: %w", err)
	}
	controller, err := tfjob.New(clients, tfjob.Options{SchedulerName: tutti.SchedulerName, PodGroups: tfjob.CRDPodGroups},
		&record.FakeRecorder{}, now)
	if err != nil {
		return fmt.Errorf("making the controller: %w", err)
	}
	controller.Start(ctx)
	running.Go(func() { controller.Run(ctx, 1) })
	return nil
}
