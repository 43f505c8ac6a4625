// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
)

// scene is a Projector with sources in memory and an informer on its output.
type scene struct {
	groups, pods, succeeded *cachetesting.FakeControllerSource
	output                  cache.SharedIndexInformer
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{
		groups:    cachetesting.NewFakeControllerSource(),
		pods:      cachetesting.NewFakeControllerSource(),
		succeeded: cachetesting.NewFakeControllerSource(),
	}
	p := NewProjector()
	start := func(source *cachetesting.FakeControllerSource, example runtime.Object, watch func(cache.SharedIndexInformer) error) {
		informer := cache.NewSharedIndexInformer(source, example, 0, cache.Indexers{})
		if err := watch(informer); err != nil {
			t.Fatal(err)
		}
		go informer.RunWithContext(t.Context())
	}
	start(s.groups, &v1alpha1.PodGroup{}, p.WatchPodGroups)
	start(s.pods, &v1.Pod{}, func(informer cache.SharedIndexInformer) error { return p.WatchPods(informer, NewMembership(nil)) })
	start(s.succeeded, &metav1.PartialObjectMetadata{}, func(informer cache.SharedIndexInformer) error { return p.WatchFinished(v1.PodSucceeded, informer) })
	s.output = p.Informer()
	go s.output.RunWithContext(t.Context())
	go p.Run(t.Context())
	return s
}

// expect waits for the projection of ns/g: its minCount, or 0 for none.
func (s *scene) expect(t *testing.T, minCount int32) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		got := int32(0)
		if object, ok, _ := s.output.GetStore().GetByKey("ns/g"); ok {
			got = object.(*schedulingv1beta1.PodGroup).Spec.SchedulingPolicy.Gang.MinCount
		}
		if got == minCount && s.output.HasSynced() {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("minCount of the projection is %d, want %d", got, minCount)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func memberPod(i int) *v1.Pod {
	group := "g"
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%d", i), Namespace: "ns", UID: types.UID(fmt.Sprint(i))},
		Spec:       v1.PodSpec{SchedulingGroup: &v1.PodSchedulingGroup{PodGroupName: &group}},
	}
}

func TestProjectorFollowsItsSources(t *testing.T) {
	s := newScene(t)
	s.expect(t, 0)
	s.pods.Add(memberPod(0))
	s.groups.Add(groupOf(3))
	s.expect(t, 3)

	t.Log("a change of minMember")
	changed := groupOf(2)
	changed.Generation = 2
	s.groups.Modify(changed)
	s.expect(t, 2)

	t.Log("a member succeeds: it leaves the pod informer and joins the succeeded")
	s.pods.Add(memberPod(1))
	s.succeeded.Add(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: "p1", Namespace: "ns", UID: "1", CreationTimestamp: epoch, Labels: map[string]string{v1alpha1.PodGroupLabel: "g"},
	}})
	s.pods.Delete(memberPod(1))
	s.expect(t, 1)

	t.Log("the last live member goes: nothing to schedule, nothing projected")
	s.pods.Delete(memberPod(0))
	s.expect(t, 0)

	t.Log("a replacement comes")
	s.pods.Add(memberPod(2))
	s.expect(t, 1)
	s.groups.Delete(changed)
	s.expect(t, 0)
}

func TestStoreListWaitsForTheSources(t *testing.T) {
	p := NewProjector()
	listed := make(chan struct{})
	go func() {
		_, _ = p.store.List(metav1.ListOptions{})
		close(listed)
	}()
	select {
	case <-listed:
		t.Fatal("listed before the sources were complete")
	case <-time.After(20 * time.Millisecond):
	}
	p.Run(t.Context())
	<-listed
}

func TestStoreWatchMissesNothing(t *testing.T) {
	s := newStore()
	close(s.ready)
	key := types.NamespacedName{Namespace: "ns", Name: "g"}
	set := func(n int) {
		for range n {
			s.set(key, &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "g", Namespace: "ns"}})
		}
	}
	set(3)
	t.Run("a watch from an old version gets all since", func(t *testing.T) {
		w, err := s.Watch(metav1.ListOptions{ResourceVersion: "1"})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		for _, want := range []string{"2", "3"} {
			if got := (<-w.ResultChan()).Object.(*schedulingv1beta1.PodGroup).ResourceVersion; got != want {
				t.Errorf("got version %s, want %s", got, want)
			}
		}
		set(1)
		if got := (<-w.ResultChan()).Object.(*schedulingv1beta1.PodGroup).ResourceVersion; got != "4" {
			t.Errorf("got version %s, want 4", got)
		}
	})
	t.Run("a watch from before the log is told to list again", func(t *testing.T) {
		set(2 * logSize)
		w, err := s.Watch(metav1.ListOptions{ResourceVersion: "1"})
		if err != nil {
			t.Fatal(err)
		}
		status, ok := (<-w.ResultChan()).Object.(*metav1.Status)
		if !ok || status.Reason != metav1.StatusReasonExpired {
			t.Errorf("got %+v, want Expired", status)
		}
		if _, open := <-w.ResultChan(); open {
			t.Error("the watch stays open")
		}
	})
	t.Run("a stopped watch ends", func(t *testing.T) {
		w, err := s.Watch(metav1.ListOptions{ResourceVersion: fmt.Sprint(s.version())})
		if err != nil {
			t.Fatal(err)
		}
		w.Stop()
		w.Stop()
		if _, open := <-w.ResultChan(); open {
			t.Error("an event after Stop")
		}
	})
}
