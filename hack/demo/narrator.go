// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/tutti-project/tutti/test/controlplane"
)

const namespace = "default"

// narrator tells, as it happens, what becomes of the gangs. It only watches:
// all it says is what the API server told it.
type narrator struct {
	out  *screen
	told map[string]string // by object: the last thing said of it
	// gangs count the bindings, by name.
	gangs map[string]*tally
	bound map[types.UID]bool
}

type tally struct {
	members int64
	bound   int64
	first   time.Time
}

// narrate starts the narrator, which ends with ctx.
func narrate(ctx context.Context, out *screen, plane *controlplane.ControlPlane) error {
	n := &narrator{out: out, told: map[string]string{}, gangs: map[string]*tally{}, bound: map[types.UID]bool{}}
	groups, err := follow(ctx, plane, controlplane.PodGroups)
	if err != nil {
		return err
	}
	pods, err := follow(ctx, plane, corev1.SchemeGroupVersion.WithResource("pods"))
	if err != nil {
		return err
	}
	go func() {
		for {
			select {
			case event, ok := <-groups:
				if !ok {
					return
				}
				n.group(event)
			case event, ok := <-pods:
				if !ok {
					return
				}
				n.pod(event)
			}
		}
	}()
	return nil
}

// follow watches a resource from now on, across broken connections.
func follow(ctx context.Context, plane *controlplane.ControlPlane, resource schema.GroupVersionResource) (<-chan watch.Event, error) {
	client := plane.Dynamic.Resource(resource).Namespace(namespace)
	list, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return client.Watch(ctx, o)
		},
	})
	if err != nil {
		return nil, err
	}
	return watcher.ResultChan(), nil
}

func (n *narrator) group(event watch.Event) {
	group, ok := event.Object.(*unstructured.Unstructured)
	if !ok {
		return
	}
	name := group.GetName()
	what := "podgroup/" + name
	if event.Type == watch.Deleted {
		n.out.told(what, "deleted")
		delete(n.gangs, name)
		delete(n.told, what)
		return
	}
	gang := n.gangs[name]
	if gang == nil {
		members, _, _ := unstructured.NestedInt64(group.Object, "spec", "minMember")
		n.gangs[name] = &tally{members: members}
		n.out.told(what, fmt.Sprintf("a gang of %d", members))
	}
	verdict, err := controlplane.VerdictOf(group)
	if err != nil || n.told[what] == verdict.Message {
		return
	}
	n.told[what] = verdict.Message
	if verdict.Status == metav1.ConditionTrue {
		n.out.good(what, verdict.Reason+": "+verdict.Message)
	} else {
		n.out.waiting(what, verdict.Reason+": "+verdict.Message)
	}
}

func (n *narrator) pod(event watch.Event) {
	pod, ok := event.Object.(*unstructured.Unstructured)
	if !ok {
		return
	}
	node, _, _ := unstructured.NestedString(pod.Object, "spec", "nodeName")
	gang := n.gangs[pod.GetLabels()[v1alpha1.PodGroupLabel]]
	if node == "" || gang == nil || n.bound[pod.GetUID()] {
		return
	}
	n.bound[pod.GetUID()] = true
	if gang.bound++; gang.bound == 1 {
		gang.first = time.Now()
	}
	if gang.bound == gang.members {
		n.out.good("pods", fmt.Sprintf("all %d of %s are bound, the last %d ms after the first",
			gang.bound, pod.GetLabels()[v1alpha1.PodGroupLabel], time.Since(gang.first).Milliseconds()))
	}
}
