// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"fmt"
	"maps"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/features"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/tutti-project/tutti/pkg/clusterview"
)

// watch tells the gate what can let a gang in: members and groups that come or
// change, room that comes free, and what else pods ask for. A pod that succeeds
// or fails leaves the scheduler's informer as if deleted.
func (g *gate) watch(factory informers.SharedInformerFactory) error {
	type source struct {
		what     string
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}
	storage, resources := factory.Storage().V1(), factory.Resource().V1()
	sources := []source{
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
		{"volume claims", factory.Core().V1().PersistentVolumeClaims().Informer(), onChange(func(obj any) {
			claim := obj.(*v1.PersistentVolumeClaim)
			g.claimChanged(types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name})
		})},
		{"volumes", factory.Core().V1().PersistentVolumes().Informer(), g.onHelp(helpVolumes)},
		{"storage classes", storage.StorageClasses().Informer(), g.onHelp(helpVolumes)},
		{"storage drivers' nodes", storage.CSINodes().Informer(), g.onHelp(helpVolumes)},
		{"storage capacities", storage.CSIStorageCapacities().Informer(), g.onHelp(helpVolumes)},
	}
	if utilfeature.DefaultFeatureGate.Enabled(features.DynamicResourceAllocation) {
		sources = append(sources,
			source{"device claims", resources.ResourceClaims().Informer(), g.onHelp(helpDevices)},
			source{"devices", resources.ResourceSlices().Informer(), g.onHelp(helpDevices)},
			source{"device classes", resources.DeviceClasses().Informer(), g.onHelp(helpDevices)},
		)
	}
	for _, s := range sources {
		if _, err := s.informer.AddEventHandler(s.handler); err != nil {
			return fmt.Errorf("watching %s for the gate: %w", s.what, err)
		}
	}
	return nil
}

// onChange calls do with what comes or changes.
func onChange(do func(obj any)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{AddFunc: do, UpdateFunc: func(_, obj any) { do(obj) }}
}

func (g *gate) onHelp(kind help) cache.ResourceEventHandler {
	return onChange(func(any) { g.helped(kind, nil) })
}

func (g *gate) podAdded(pod *v1.Pod) {
	if pod.Spec.NodeName != "" {
		g.helped(helpNeighbours, nil)
	} else if name, ok := clusterview.GroupOf(pod); ok {
		g.wake(types.NamespacedName{Namespace: pod.Namespace, Name: name})
	}
}

// podUpdated: a pod on a node that begins to terminate makes no room yet, but
// a smaller request after a resize does.
func (g *gate) podUpdated(old, pod *v1.Pod) {
	switch {
	case pod.Spec.NodeName == "":
		g.relabelled(old, pod)
	case old.Spec.NodeName == "" || !maps.Equal(old.Labels, pod.Labels):
		g.helped(helpNeighbours, nil)
	case !apiequality.Semantic.DeepEqual(old.Spec.Containers, pod.Spec.Containers):
		g.changed()
	}
}

// relabelled tells whoever edits the label of a pod that waits what comes of
// it: nothing.
func (g *gate) relabelled(old, pod *v1.Pod) {
	was, is := old.Labels[v1alpha1.PodGroupLabel], pod.Labels[v1alpha1.PodGroupLabel]
	if was == is || pod.Spec.SchedulerName != g.profile {
		return
	}
	stays := "by itself, in no gang"
	if name, ok := clusterview.GroupOf(pod); ok {
		stays = "in gang " + name
	}
	g.report.events.Event(pod, v1.EventTypeWarning, "GangUnchanged", fmt.Sprintf(
		"label %s was changed from %q to %q, but a pod cannot change its gang: it is scheduled %s; to change that, delete it and create it anew",
		v1alpha1.PodGroupLabel, was, is, stays))
}

func (g *gate) podGone(pod *v1.Pod) {
	if pod.Spec.NodeName != "" {
		g.changed()
	}
	if name, ok := clusterview.GroupOf(pod); ok {
		g.wakeKnown(types.NamespacedName{Namespace: pod.Namespace, Name: name}, pod.Spec.NodeName != "" && !clusterview.IsPreempted(pod))
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
