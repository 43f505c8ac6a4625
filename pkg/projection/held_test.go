// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/tutti-project/tutti/pkg/apis/tutti"
)

// TestMembersWithSchedulingGatesAreCountedAndNotShown: the engine's informer
// sees a member come when its gates are gone, and one without a gang as it is.
func TestMembersWithSchedulingGatesAreCountedAndNotShown(t *testing.T) {
	pod := func(i int, gates ...v1.PodSchedulingGate) *v1.Pod {
		p := memberPod(i)
		p.Labels = map[string]string{v1alpha1.PodGroupLabel: "g"}
		p.Spec = v1.PodSpec{SchedulerName: "tutti-scheduler", SchedulingGates: gates}
		return p
	}
	gate := v1.PodSchedulingGate{Name: "kueue.x-k8s.io/admission"}
	alone, foreign := pod(7, gate), pod(8, gate)
	alone.Labels = nil
	foreign.Spec.SchedulerName = "default-scheduler"
	server := fake.NewClientset(pod(0), pod(1, gate), alone, foreign)
	projector := NewProjector()
	membership := NewMembership(sets.New("tutti-scheduler"))
	client := &Client{Interface: server, Projector: projector, Membership: membership}
	pods := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return client.CoreV1().Pods(metav1.NamespaceAll).Watch(ctx, o)
		},
	}, server), &v1.Pod{}, 0, cache.Indexers{})
	if err := projector.WatchPods(pods, membership); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var seen []string
	note := func(what string, obj any) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, what+" "+obj.(*v1.Pod).Name)
	}
	if _, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { note("add", obj) },
		UpdateFunc: func(_, obj any) { note("update", obj) },
		DeleteFunc: func(obj any) { note("delete", obj) },
	}); err != nil {
		t.Fatal(err)
	}
	groups := cachetesting.NewFakeControllerSource()
	groups.Add(groupOf(2))
	groupInformer := cache.NewSharedIndexInformer(groups, &v1alpha1.PodGroup{}, 0, cache.Indexers{})
	if err := projector.WatchPodGroups(groupInformer); err != nil {
		t.Fatal(err)
	}
	go groupInformer.RunWithContext(t.Context())
	go pods.RunWithContext(t.Context())

	expect := func(step, held string, events ...string) {
		t.Helper()
		slices.Sort(events)
		var got string
		for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
			mu.Lock()
			now := slices.Sorted(slices.Values(seen))
			mu.Unlock()
			group, ok := projector.Projected("ns", "g")
			if !ok {
				got = "no projection"
				continue
			}
			got = fmt.Sprintf("%q held, %s", group.Annotations[tutti.HeldPodsAnnotation], strings.Join(now, ", "))
			if group.Annotations[tutti.HeldPodsAnnotation] == held && slices.Equal(now, events) {
				return
			}
		}
		t.Fatalf("%s: got %s; want %q held and %v", step, got, held, events)
	}
	events := []string{"add p0", "add p7", "add p8"}
	expect("at the start", "1", events...)
	if _, err := server.CoreV1().Pods("ns").Create(t.Context(), pod(2, gate), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("another one with a gate", "2", events...)
	if err := server.CoreV1().Pods("ns").Delete(t.Context(), "p2", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("it goes", "1", events...)
	if _, err := server.CoreV1().Pods("ns").Update(t.Context(), pod(1), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("a gate is opened", "", append(events, "add p1")...)
}

// TestPodsOfOnePhaseAreNotCounted: who lists those that failed does not disturb what is
// known of the held ones, and leaves nothing behind.
func TestPodsOfOnePhaseAreNotCounted(t *testing.T) {
	held := memberPod(0)
	held.Labels = map[string]string{v1alpha1.PodGroupLabel: "g"}
	held.Spec = v1.PodSpec{SchedulerName: "tutti-scheduler", SchedulingGates: []v1.PodSchedulingGate{{Name: "kueue.x-k8s.io/admission"}}}
	failed := memberPod(1)
	failed.Labels = held.Labels
	failed.Spec.SchedulerName = "tutti-scheduler"
	failed.Status.Phase = v1.PodFailed
	server := fake.NewClientset(held, failed)
	projector, membership := NewProjector(), NewMembership(sets.New("tutti-scheduler"))
	pods := (&Client{Interface: server, Projector: projector, Membership: membership}).CoreV1().Pods(metav1.NamespaceAll)
	// The engine's list, as its informer asks.
	if _, err := pods.List(t.Context(), metav1.ListOptions{FieldSelector: "status.phase!=Succeeded,status.phase!=Failed"}); err != nil {
		t.Fatal(err)
	}
	known := len(membership.first)
	counted := func() int { return len(projector.groups[types.NamespacedName{Namespace: "ns", Name: "g"}].held) }
	if counted() != 1 {
		t.Fatalf("%d held, want 1", counted())
	}
	ofOnePhase := metav1.ListOptions{FieldSelector: "spec.schedulerName=tutti-scheduler,status.phase=Failed"}
	if _, err := pods.List(t.Context(), ofOnePhase); err != nil {
		t.Fatal(err)
	}
	watching, err := pods.Watch(t.Context(), ofOnePhase)
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Stop()
	if err := server.CoreV1().Pods("ns").Delete(t.Context(), failed.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for event := range watching.ResultChan() {
		if event.Type == watch.Deleted {
			break
		}
	}
	if counted() != 1 || len(membership.first) != known {
		t.Errorf("%d held and %d known pods, want 1 and %d", counted(), len(membership.first), known)
	}
}
