// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"context"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// Held pods are a gang's members with scheduling gates. The engine keeps a whole
// group out as long as one of its queued pods is gated, also when the group has
// its minimum without that pod. So the engine's pod informer never sees a member
// before its gates are gone, which are never added again; its first event then is
// that of a pod that comes. The projection counts held pods, for the verdict.

// CoreV1 implements kubernetes.Interface.
func (c *Client) CoreV1() typedcorev1.CoreV1Interface {
	return &coreClient{CoreV1Interface: c.Interface.CoreV1(), client: c}
}

type coreClient struct {
	typedcorev1.CoreV1Interface
	client *Client
}

// Pods implements typedcorev1.PodsGetter.
func (c *coreClient) Pods(namespace string) typedcorev1.PodInterface {
	var pods typedcorev1.PodInterface = &refusalClient{PodInterface: c.CoreV1Interface.Pods(namespace), namespace: namespace, writer: c.client.Refusals}
	if namespace != metav1.NamespaceAll {
		return pods
	}
	return &podClient{PodInterface: pods, client: c.client}
}

// podClient lists and watches the pods of all namespaces for the engine's informer. Who
// asks for pods of one phase is somebody else, and gets them all.
type podClient struct {
	typedcorev1.PodInterface
	client *Client
}

// List implements typedcorev1.PodInterface.
func (c *podClient) List(ctx context.Context, opts metav1.ListOptions) (*v1.PodList, error) {
	list, err := c.PodInterface.List(ctx, opts)
	if err != nil || isOfOnePhase(opts) {
		return list, err
	}
	if opts.Continue == "" {
		c.client.resetHeld()
	}
	free := list.Items[:0]
	for i := range list.Items {
		if !c.hold(&list.Items[i], false) {
			free = append(free, list.Items[i])
		}
	}
	list.Items = free
	return list, nil
}

// Watch implements typedcorev1.PodInterface.
func (c *podClient) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	w, err := c.PodInterface.Watch(ctx, opts)
	if err != nil || isOfOnePhase(opts) {
		return w, err
	}
	if opts.SendInitialEvents != nil && *opts.SendInitialEvents {
		c.client.resetHeld()
	}
	return watch.Filter(w, func(event watch.Event) (watch.Event, bool) {
		pod, ok := event.Object.(*v1.Pod)
		return event, !ok || event.Type == watch.Bookmark || !c.hold(pod, event.Type == watch.Deleted)
	}), nil
}

func isOfOnePhase(opts metav1.ListOptions) bool {
	selector, err := fields.ParseSelector(opts.FieldSelector)
	if err != nil {
		return false // the API server has refused it
	}
	_, one := selector.RequiresExactMatch("status.phase")
	return one
}

// hold takes note of the pod and tells whether it is kept from the engine.
func (c *podClient) hold(pod *v1.Pod, gone bool) bool {
	membership := c.client.Membership
	name := membership.groupOf(pod)
	if name == "" {
		return false
	}
	held := len(pod.Spec.SchedulingGates) > 0
	if held || gone {
		c.client.Projector.hold(types.NamespacedName{Namespace: pod.Namespace, Name: name}, pod, held && !gone)
	}
	if held && gone { // others are forgotten when the informer sees them go
		membership.forget(pod.UID)
	}
	return held
}

// resetHeld forgets all that are held: they are listed anew.
func (c *Client) resetHeld() {
	for _, uid := range c.Projector.resetHeld() {
		c.Membership.forget(uid)
	}
}

// hold takes a member as held, or as gone. One that the engine's informer
// delivers is no longer held either.
func (p *Projector) hold(key types.NamespacedName, pod *v1.Pod, held bool) {
	p.update(key, func(g *group) bool {
		_, known := g.held[pod.UID]
		if held {
			g.held[pod.UID] = memberFrom(pod)
		} else {
			delete(g.held, pod.UID)
		}
		return known != held
	})
}

func (p *Projector) resetHeld() (held []types.UID) {
	p.mu.Lock()
	var keys []types.NamespacedName
	for key, g := range p.groups {
		if len(g.held) > 0 {
			keys = append(keys, key)
		}
	}
	p.mu.Unlock()
	for _, key := range keys {
		p.update(key, func(g *group) bool {
			held = slices.AppendSeq(held, maps.Keys(g.held))
			clear(g.held)
			return true
		})
	}
	return held
}
