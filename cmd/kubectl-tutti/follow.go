// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/tutti-project/tutti/pkg/page"
	"github.com/tutti-project/tutti/pkg/snapshot"
)

// follower keeps what the page shows of a cluster, by watching it.
type follower struct {
	note    func(text string)
	version atomic.Uint64 // grows with every change
	stores  map[string]cache.Store

	mu      sync.Mutex
	trouble string
}

// probePeriod is how often the API server is asked whether it is there: watches
// that break are taken up again silently.
const probePeriod = 5 * time.Second

// start returns when the first state is complete.
func (f *follower) start(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	typed := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(trimmed))
	custom := dynamicinformer.NewDynamicSharedInformerFactory(dynamicClient, 0)
	watched := map[string]cache.SharedIndexInformer{
		"Node": typed.Core().V1().Nodes().Informer(),
		"Pod":  typed.Core().V1().Pods().Informer(),
	}
	var unread []string
	for _, k := range snapshot.Served(client.Discovery()) {
		switch k.Kind {
		case "PodGroup", "TFJob", "NodeTopology":
		case "Node", "Pod":
			if err := listable(ctx, dynamicClient, k); err != nil {
				return fmt.Errorf("listing %s: %w", k.Resource.GroupResource(), err)
			}
			continue
		default:
			continue
		}
		if err := listable(ctx, dynamicClient, k); apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
			unread = append(unread, k.String())
			continue
		} else if err != nil {
			return fmt.Errorf("listing %s: %w", k.Resource.GroupResource(), err)
		}
		watched[k.String()] = custom.ForResource(k.Resource).Informer()
	}
	if len(unread) > 0 {
		f.note("not shown, since the cluster has none or you may not list them: " + strings.Join(unread, ", "))
	}
	if err := f.watch(watched); err != nil {
		return err
	}
	typed.Start(ctx.Done())
	custom.Start(ctx.Done())
	for kind, informer := range watched {
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return fmt.Errorf("reading %s: %w", kind, context.Cause(ctx))
		}
	}
	go f.probe(ctx, client)
	return nil
}

func listable(ctx context.Context, client dynamic.Interface, k snapshot.Kind) error {
	_, err := client.Resource(k.Resource).List(ctx, metav1.ListOptions{Limit: 1})
	return err
}

func (f *follower) watch(watched map[string]cache.SharedIndexInformer) error {
	f.version.Store(1)
	f.stores = map[string]cache.Store{}
	for kind, informer := range watched {
		changed := func() { f.version.Add(1) }
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { changed() },
			UpdateFunc: func(any, any) { changed() },
			DeleteFunc: func(any) { changed() },
		})
		if err != nil {
			return fmt.Errorf("watching %s: %w", kind, err)
		}
		f.stores[kind] = informer.GetStore()
	}
	return nil
}

// probe notices that the API server is gone, or that it is back.
func (f *follower) probe(ctx context.Context, client kubernetes.Interface) {
	ticker := time.NewTicker(probePeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		bounded, cancel := context.WithTimeout(ctx, probePeriod)
		err := client.Discovery().RESTClient().Get().AbsPath("/version").Do(bounded).Error()
		cancel()
		trouble := ""
		if err != nil && !errors.Is(err, context.Canceled) {
			trouble = "the API server does not answer, so this is as it was before: " + err.Error()
		}
		f.mu.Lock()
		if (trouble == "") != (f.trouble == "") {
			f.trouble = trouble
			f.version.Add(1)
		}
		f.mu.Unlock()
	}
}

// look is page.Options.Look.
func (f *follower) look(known uint64) (uint64, *page.View, error) {
	version := f.version.Load() // before reading: what comes meanwhile is seen again
	if version == known {
		return version, nil, nil
	}
	view := &page.View{
		Nodes:  listed[*v1.Node](f.stores["Node"]),
		Pods:   listed[*v1.Pod](f.stores["Pod"]),
		Groups: append(listed[*unstructured.Unstructured](f.stores["PodGroup"]), listed[*unstructured.Unstructured](f.stores[snapshot.NativePodGroup.String()])...),
		Jobs:   listed[*unstructured.Unstructured](f.stores["TFJob"]),
	}
	f.mu.Lock()
	view.Trouble = f.trouble
	f.mu.Unlock()
	err := view.AddTopologies(listed[*unstructured.Unstructured](f.stores["NodeTopology"]))
	return version, view, err
}

func listed[T any](store cache.Store) []T {
	if store == nil {
		return nil
	}
	objects := store.List()
	found := make([]T, 0, len(objects))
	for _, o := range objects {
		if object, ok := o.(T); ok {
			found = append(found, object)
		}
	}
	return found
}

// trimmed keeps in memory what the page shows.
func trimmed(object any) (any, error) {
	switch o := object.(type) {
	case *v1.Node:
		o.ManagedFields, o.Annotations = nil, nil
		o.Status.Images = nil
	case *v1.Pod:
		o.ManagedFields, o.Annotations = nil, nil
		o.Spec.Volumes, o.Spec.Tolerations, o.Spec.Affinity = nil, nil, nil
		for _, containers := range [][]v1.Container{o.Spec.Containers, o.Spec.InitContainers} {
			for i, c := range containers {
				containers[i] = v1.Container{Name: c.Name, Resources: c.Resources, RestartPolicy: c.RestartPolicy}
			}
		}
	}
	return object, nil
}
