// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"context"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/tutti-project/tutti/pkg/clusterview"
)

// Projector keeps the projected PodGroups in step with PodGroups and pods.
// An event costs O(members of its group) at the most, and nothing when the
// projection of its group does not change.
type Projector struct {
	store *store
	// changed is told of CRD groups whose status may have changed. It must not
	// block, and not call back.
	changed func(name types.NamespacedName, uid types.UID)

	mu      sync.Mutex
	groups  map[types.NamespacedName]*group
	handles []cache.ResourceEventHandlerRegistration
}

// NewProjector makes an empty one; give it its sources with the Watch methods,
// then Run it.
func NewProjector() *Projector {
	return &Projector{store: newStore(), groups: map[types.NamespacedName]*group{}, changed: func(types.NamespacedName, types.UID) {}}
}

// Informer is a native PodGroup informer over the projection.
func (p *Projector) Informer() cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(p.store, &schedulingv1beta1.PodGroup{}, 0,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
}

// Projected returns the projection under a name, if there is one now.
func (p *Projector) Projected(namespace, name string) (*schedulingv1beta1.PodGroup, bool) {
	return p.store.get(types.NamespacedName{Namespace: namespace, Name: name})
}

// WatchPodGroups takes CRD PodGroups from the informer.
func (p *Projector) WatchPodGroups(informer cache.SharedIndexInformer) error {
	return p.watch(informer, func(obj any, gone bool) {
		object := obj.(*v1alpha1.PodGroup)
		p.update(types.NamespacedName{Namespace: object.Namespace, Name: object.Name}, func(g *group) bool {
			old := g.object
			g.object = object
			if gone {
				g.object = nil
			}
			return old == nil || gone || old.Generation != object.Generation || old.UID != object.UID ||
				!apiequality.Semantic.DeepEqual(old.Annotations, object.Annotations)
		})
	})
}

// WatchNative takes the API server's own PodGroups from the informer.
func (p *Projector) WatchNative(informer cache.SharedIndexInformer) error {
	return p.watch(informer, func(obj any, gone bool) {
		object := obj.(*schedulingv1beta1.PodGroup)
		p.update(types.NamespacedName{Namespace: object.Namespace, Name: object.Name}, func(g *group) bool {
			old := g.native
			g.native = object
			if gone {
				g.native = nil
			}
			return old == nil || gone || !sameProjection(old, object)
		})
	})
}

// WatchPods takes live members from the engine's pod informer, which drops pods
// that have succeeded or failed, and becomes that informer's transform.
func (p *Projector) WatchPods(informer cache.SharedIndexInformer, membership *Membership) error {
	if err := informer.SetTransform(membership.Transform); err != nil {
		return fmt.Errorf("setting the pods' transform: %w", err)
	}
	return p.watch(informer, func(obj any, gone bool) {
		pod := obj.(*v1.Pod)
		if gone {
			membership.forget(pod.UID)
		}
		name, ok := clusterview.GroupOf(pod)
		if !ok {
			return
		}
		p.update(types.NamespacedName{Namespace: pod.Namespace, Name: name}, func(g *group) bool {
			_, known := g.live[pod.UID]
			if gone {
				delete(g.live, pod.UID)
				return known
			}
			delete(g.held, pod.UID)
			g.live[pod.UID] = memberFrom(pod)
			return !known
		})
	})
}

// WatchFinished takes members that have ended, in that phase, from an informer
// of such pods: whole ones, which name their group as live ones do, or the
// metadata of pods that bear the pod-group label.
func (p *Projector) WatchFinished(phase v1.PodPhase, informer cache.SharedIndexInformer) error {
	return p.watch(informer, func(obj any, gone bool) {
		pod := obj.(metav1.Object)
		name := pod.GetLabels()[v1alpha1.PodGroupLabel]
		if whole, ok := obj.(*v1.Pod); ok {
			if own, ok := clusterview.GroupOf(whole); ok {
				name = own
			}
		}
		if name == "" {
			return
		}
		p.update(types.NamespacedName{Namespace: pod.GetNamespace(), Name: name}, func(g *group) bool {
			members := g.failed
			if phase == v1.PodSucceeded {
				members = g.succeeded
			}
			_, known := members[pod.GetUID()]
			if gone {
				delete(members, pod.GetUID())
				return known
			}
			members[pod.GetUID()] = pod.GetCreationTimestamp()
			return !known
		})
	})
}

// Run waits until all sources have delivered what exists, then opens the
// projection to its informer. It returns when that is done or ctx ends.
func (p *Projector) Run(ctx context.Context) {
	synced := make([]cache.InformerSynced, 0, len(p.handles))
	for _, handle := range p.handles {
		synced = append(synced, handle.HasSynced)
	}
	if cache.WaitForCacheSync(ctx.Done(), synced...) {
		close(p.store.ready)
	}
}

// watch calls handle with each object as it is now, or as it last was when it
// is gone.
func (p *Projector) watch(informer cache.SharedIndexInformer, handle func(obj any, gone bool)) error {
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { handle(obj, false) },
		UpdateFunc: func(_, obj any) { handle(obj, false) },
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			handle(obj, true)
		},
	})
	if err != nil {
		return fmt.Errorf("watching the sources of the projection: %w", err)
	}
	p.handles = append(p.handles, registration)
	return nil
}

// update changes what is known of one group and projects it again if change
// says that this could matter.
func (p *Projector) update(key types.NamespacedName, change func(*group) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g, ok := p.groups[key]
	if !ok {
		g = newGroup()
		p.groups[key] = g
	}
	changed := change(g)
	if g.empty() {
		delete(p.groups, key)
	}
	if g.object != nil {
		p.changed(key, g.object.UID)
	}
	if !changed {
		return
	}
	next := nativeFrom(g)
	if old, ok := p.store.get(key); ok && next != nil && sameProjection(old, next) {
		return
	}
	p.store.set(key, next)
}

func sameProjection(a, b *schedulingv1beta1.PodGroup) bool {
	return a.UID == b.UID && a.Generation == b.Generation &&
		apiequality.Semantic.DeepEqual(a.Annotations, b.Annotations) &&
		apiequality.Semantic.DeepEqual(a.Spec, b.Spec)
}

var _ cache.ListerWatcher = (*store)(nil)
