// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/tutti-project/tutti/pkg/clusterview"
)

// watch tells the gate what can let a gang in: members and groups that come or
// change, and room that comes free. A pod that succeeds or fails leaves the
// scheduler's informer as if deleted.
func (g *gate) watch(factory informers.SharedInformerFactory) error {
	handlers := []struct {
		what     string
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandlerFuncs
	}{
		{"pods", factory.Core().V1().Pods().Informer(), cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { g.podAdded(obj.(*v1.Pod)) },
			UpdateFunc: func(old, obj any) { g.podUpdated(old.(*v1.Pod), obj.(*v1.Pod)) },
			DeleteFunc: func(obj any) { g.podGone(final[*v1.Pod](obj)) },
		}},
		{"nodes", factory.Core().V1().Nodes().Informer(), cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { g.changed() },
			UpdateFunc: func(old, obj any) {
				if mayMakeRoom(old.(*v1.Node), obj.(*v1.Node)) {
					g.changed()
				}
			},
		}},
		{"pod groups", factory.Scheduling().V1beta1().PodGroups().Informer(), cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { g.wake(keyOf(obj.(*schedulingv1beta1.PodGroup))) },
			UpdateFunc: func(_, obj any) { g.wake(keyOf(obj.(*schedulingv1beta1.PodGroup))) },
			DeleteFunc: func(obj any) { g.forget(final[*schedulingv1beta1.PodGroup](obj)) },
		}},
	}
	for _, h := range handlers {
		if _, err := h.informer.AddEventHandler(h.handler); err != nil {
			return fmt.Errorf("watching %s for the gate: %w", h.what, err)
		}
	}
	return nil
}

func (g *gate) podAdded(pod *v1.Pod) {
	if name, ok := clusterview.GroupOf(pod); ok && pod.Spec.NodeName == "" {
		g.wake(types.NamespacedName{Namespace: pod.Namespace, Name: name})
	}
}

// podUpdated: a pod on a node that begins to terminate makes no room yet, but
// a smaller request after a resize does.
func (g *gate) podUpdated(old, pod *v1.Pod) {
	if pod.Spec.NodeName != "" && old.Spec.NodeName != "" &&
		!apiequality.Semantic.DeepEqual(old.Spec.Containers, pod.Spec.Containers) {
		g.changed()
	}
}

func (g *gate) podGone(pod *v1.Pod) {
	if pod.Spec.NodeName != "" {
		g.changed()
	}
	if name, ok := clusterview.GroupOf(pod); ok {
		g.wakeKnown(types.NamespacedName{Namespace: pod.Namespace, Name: name})
	}
}

// mayMakeRoom tells a change that could let a pod in from a heartbeat.
func mayMakeRoom(old, node *v1.Node) bool {
	return !apiequality.Semantic.DeepEqual(old.Status.Allocatable, node.Status.Allocatable) ||
		!apiequality.Semantic.DeepEqual(old.Labels, node.Labels) ||
		!apiequality.Semantic.DeepEqual(old.Spec, node.Spec)
}

func keyOf(group *schedulingv1beta1.PodGroup) types.NamespacedName {
	return types.NamespacedName{Namespace: group.Namespace, Name: group.Name}
}

// final is the object of a delete event, which may be the last one known.
func final[T any](obj any) T {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	return obj.(T)
}
