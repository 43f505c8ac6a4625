// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	corev1listers "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/tutti-project/tutti/pkg/clusterview"
)

// evictScene is an evictor with an API server that notes every request, and
// refuses those that refuse says.
type evictScene struct {
	*evictor
	handle *fakeHandle
	known  cache.Indexer
	mu     sync.Mutex
	asked  []string // "patch p1", "delete p1"
	refuse func(request string) error
}

func newEvictScene(t *testing.T, pods ...*v1.Pod) *evictScene {
	s := &evictScene{known: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})}
	client := fake.NewClientset()
	for _, pod := range pods {
		if err := client.Tracker().Add(pod); err != nil {
			t.Fatal(err)
		}
		s.set(t, pod)
	}
	client.PrependReactor("*", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		var name string
		switch a := action.(type) {
		case clienttesting.PatchAction:
			name = a.GetName()
		case clienttesting.DeleteAction:
			name = a.GetName()
		default:
			return false, nil, nil
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		request := action.GetVerb() + " " + name
		s.asked = append(s.asked, request)
		if s.refuse != nil {
			if err := s.refuse(request); err != nil {
				return true, nil, err
			}
		}
		return false, nil, nil
	})
	s.handle = newFakeHandle(1)
	s.evictor = newEvictor(client, corev1listers.NewPodLister(s.known), s.handle.PodGroupManager(), &fakeRecorder{handle: s.handle})
	return s
}

func (s *evictScene) set(t *testing.T, pod *v1.Pod) {
	t.Helper()
	if err := s.known.Update(pod); err != nil {
		t.Fatal(err)
	}
}

func (s *evictScene) count(verb string) int {
	n := 0
	for _, request := range s.asked {
		if strings.HasPrefix(request, verb) {
			n++
		}
	}
	return n
}

func boundPods(n int) []*v1.Pod {
	pods := make([]*v1.Pod, n)
	for i := range pods {
		pods[i] = podNamed(fmt.Sprint("victim-", i))
		pods[i].Spec.NodeName = "n"
	}
	return pods
}

func orderFor(preemptor *v1.Pod, victims []*v1.Pod) *order {
	return &order{preemptor: "pod ns/" + preemptor.Name, uid: preemptor.UID, pods: []*v1.Pod{preemptor}, victims: victims, why: "evicted", left: map[types.UID]bool{}, own: map[types.UID]bool{}}
}

var forbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", nil)

// TestNobodyGoesBeforeAllAreMarked: else what a dead evictor leaves of a gang would
// not be known for it.
func TestNobodyGoesBeforeAllAreMarked(t *testing.T) {
	const victims = 40
	preemptor := podNamed("preemptor")
	cases := map[string]struct {
		refuse          func(string) error
		deletes, events int
		fails           bool
	}{
		"all goes well":           {nil, victims, victims, false},
		"one mark is refused":     {func(r string) error { return only(r == "patch victim-7", forbidden) }, 0, 0, true},
		"one deletion is refused": {func(r string) error { return only(r == "delete victim-7", forbidden) }, victims, victims - 1, true},
		"one is not there any more": {func(r string) error {
			return only(strings.HasSuffix(r, " victim-7"), apierrors.NewNotFound(schema.GroupResource{}, "p"))
		}, victims, victims - 1, false},
		"one answer is a mere conflict": {func(r string) error {
			return only(r == "delete victim-7", apierrors.NewConflict(schema.GroupResource{}, "p", nil))
		}, victims, victims - 1, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			list := boundPods(victims)
			s := newEvictScene(t, append(slices.Clone(list), preemptor)...)
			s.refuse = tc.refuse
			err := s.request(orderFor(preemptor, list), klog.Background())
			if (err != nil) != tc.fails {
				t.Errorf("error %v, want one: %t", err, tc.fails)
			}
			if n := s.count("delete"); n != tc.deletes {
				t.Errorf("%d deletions were asked for, want %d", n, tc.deletes)
			}
			first := slices.IndexFunc(s.asked, func(r string) bool { return strings.HasPrefix(r, "delete") })
			for _, later := range s.asked[max(first, 0):] {
				if first >= 0 && strings.HasPrefix(later, "patch") {
					t.Errorf("%s came after %s", later, s.asked[first])
				}
			}
			if n := len(s.events.(*fakeRecorder).handle.events); n != tc.events {
				t.Errorf("%d victims were told, want %d", n, tc.events)
			}
		})
	}
}

func only(when bool, err error) error {
	if when {
		return err
	}
	return nil
}

// TestMarksAreTakenBackWhenThePreemptorGoes before the first victim has.
func TestMarksAreTakenBackWhenThePreemptorGoes(t *testing.T) {
	preemptor, victims := podNamed("preemptor"), boundPods(3)
	s := newEvictScene(t, append(slices.Clone(victims), preemptor)...)
	s.refuse = func(string) error {
		if len(s.asked) == len(victims) {
			return s.known.Delete(preemptor)
		}
		return nil
	}
	if err := s.request(orderFor(preemptor, victims), klog.Background()); !errors.Is(err, errNotWanted) {
		t.Errorf("got %v, want %v", err, errNotWanted)
	}
	if n := s.count("delete"); n != 0 {
		t.Errorf("%d deletions, want none", n)
	}
	for _, pod := range victims {
		current, err := s.client.CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
		if err != nil || clusterview.IsPreempted(current) {
			t.Errorf("pod %s is marked still (%v)", pod.Name, err)
		}
	}
}

// TestGangThatGrowsAmidItsEvictionGoesWhole: whenever it gets a node for one more of its
// pods after the victims were chosen, that one is marked before the first goes.
func TestGangThatGrowsAmidItsEvictionGoesWhole(t *testing.T) {
	const chosen = 3
	late := func() *v1.Pod {
		pod := podNamed("late")
		pod.Spec.NodeName = "n"
		return pod
	}
	cases := map[string]struct {
		before func(t *testing.T, s *evictScene)
		at     map[string]func(t *testing.T, s *evictScene) // before the answer to that request
		spare  bool
		stays  bool
	}{
		"before it is marked": {before: func(t *testing.T, s *evictScene) { s.set(t, late()) }},
		"it is about to be bound": {before: func(_ *testing.T, s *evictScene) {
			s.handle.scheduled = append(s.handle.scheduled, podNamed("late"))
		}},
		"while the first is marked": {at: map[string]func(*testing.T, *evictScene){
			"patch victim-0": func(t *testing.T, s *evictScene) { s.set(t, late()) },
		}},
		"while the last is marked": {at: map[string]func(*testing.T, *evictScene){
			"patch victim-2": func(t *testing.T, s *evictScene) { s.set(t, late()) },
		}},
		"it is being deleted": {before: func(t *testing.T, s *evictScene) {
			pod := late()
			pod.DeletionTimestamp = &metav1.Time{Time: epochZero}
			s.set(t, pod)
			s.handle.scheduled = append(s.handle.scheduled, podNamed("late"))
		}, stays: true},
		"the gang can spare the victims": {before: func(t *testing.T, s *evictScene) { s.set(t, late()) }, spare: true, stays: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			preemptor, victims := podNamed("preemptor"), boundPods(chosen)
			s := newEvictScene(t, append(slices.Clone(victims), preemptor)...)
			if err := s.client.(*fake.Clientset).Tracker().Add(podNamed("late")); err != nil {
				t.Fatal(err)
			}
			s.refuse = func(request string) error {
				if do := tc.at[request]; do != nil {
					do(t, s)
				}
				return nil
			}
			if tc.before != nil {
				tc.before(t, s)
			}
			o := orderFor(preemptor, victims)
			o.units = []clusterview.Unit{{Gang: theGang, Spare: tc.spare, Pods: victims}}
			s.evict(*o)
			for range 1000 {
				if s.ordered(o.uid) == nil || s.over(o.uid) {
					break
				}
				time.Sleep(5 * time.Millisecond)
			}
			if goes := s.goes(theGang); goes == tc.spare {
				t.Errorf("the gang goes: %t, want %t", goes, !tc.spare)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			mark, end := slices.Index(s.asked, "patch late"), slices.Index(s.asked, "delete late")
			first := slices.IndexFunc(s.asked, func(r string) bool { return strings.HasPrefix(r, "delete") })
			if tc.stays {
				if mark >= 0 || end >= 0 {
					t.Errorf("the late one went: %v", s.asked)
				}
				return
			}
			if mark < 0 || end < 0 || mark > first {
				t.Errorf("the late one is marked at %d and goes at %d, the first goes at %d: %v", mark, end, first, s.asked)
			}
		})
	}
}

// over tells whether all victims of the order were asked to go.
func (s *evictScene) over(uid types.UID) bool {
	o := s.ordered(uid)
	if o == nil {
		return true
	}
	s.evictor.mu.Lock()
	left := len(o.left)
	s.evictor.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count("delete") == left
}

// TestNobodyGoesBeforeTheRoomIsPromised in the API, where a successor finds it.
func TestNobodyGoesBeforeTheRoomIsPromised(t *testing.T) {
	preemptor, victims := podNamed("preemptor"), boundPods(2)
	s := newEvictScene(t, append(slices.Clone(victims), preemptor)...)
	o := orderFor(preemptor, victims)
	o.nodes = map[types.UID]string{preemptor.UID: "n"}
	done := make(chan error)
	go func() { done <- s.request(o, klog.Background()) }()
	time.Sleep(20 * promiseCheck)
	s.mu.Lock()
	if len(s.asked) > 0 {
		t.Errorf("%v before the room is promised", s.asked)
	}
	s.mu.Unlock()
	promised := preemptor.DeepCopy()
	promised.Status.NominatedNodeName = "n"
	s.set(t, promised)
	if err := <-done; err != nil || s.count("delete") != len(victims) {
		t.Errorf("%v, %d victims went, want all", err, s.count("delete"))
	}
}

// TestOrderIsNotBegunTwice while it is under way, and more slowly after each failure.
func TestOrderIsNotBegunTwice(t *testing.T) {
	preemptor, victims := podNamed("preemptor"), boundPods(2)
	s := newEvictScene(t, append(slices.Clone(victims), preemptor)...)
	o := orderFor(preemptor, victims)
	s.orders[o.uid] = o
	for _, pod := range victims {
		o.left[pod.UID] = true
	}
	s.evict(*orderFor(preemptor, victims[:1]))
	if s.orders[o.uid] != o {
		t.Error("an order that is under way was begun again")
	}
	for _, want := range []time.Duration{firstEvictRetry, 2 * firstEvictRetry, 4 * firstEvictRetry} {
		if got := s.failed(o.uid); got != want {
			t.Errorf("waits %s, want %s", got, want)
		}
	}
	for range 20 {
		s.failed(o.uid)
	}
	if got := s.failed(o.uid); got != lastEvictRetry {
		t.Errorf("waits %s at last, want %s", got, lastEvictRetry)
	}
	s.forget(o.uid)
	if got := s.failed(o.uid); got != firstEvictRetry {
		t.Errorf("waits %s after a success, want %s", got, firstEvictRetry)
	}
}

// TestVictimsOfAnOrderThatFailedAreNotWaitedFor by the one that replaced it amid its
// pause: nobody would evict them, and their gang would go for ever.
func TestVictimsOfAnOrderThatFailedAreNotWaitedFor(t *testing.T) {
	for name, tc := range map[string]struct {
		second  []int // the victims of the second order
		gone    []int // before the first one's pause is over
		waits   bool  // the second order is under way then
		evicted bool  // the victim that was refused is evicted again
	}{
		"the others have gone":                {[]int{1}, []int{1}, false, false},
		"the others have not gone yet":        {[]int{1}, nil, true, false},
		"the second order has the victim too": {[]int{0, 1}, []int{1}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			preemptor, victims := podNamed("preemptor"), boundPods(2)
			s := newEvictScene(t, append(slices.Clone(victims), preemptor)...)
			refused := make(chan struct{}, 100)
			s.refuse = func(request string) error {
				if request == "delete victim-0" {
					refused <- struct{}{}
					return forbidden
				}
				return nil
			}
			woken := make(chan struct{}, 2)
			first := orderFor(preemptor, victims[:1])
			first.wake = func() { woken <- struct{}{} }
			s.evict(*first)
			<-refused
			second := orderFor(preemptor, nil)
			second.wake = func() {}
			for _, i := range tc.second {
				second.victims = append(second.victims, victims[i])
			}
			s.evict(*second)
			for _, i := range tc.gone {
				s.gone(victims[i])
			}
			if !s.busy(preemptor.UID) || !s.has(victims[0].UID) {
				t.Error("the first order's victim is forgotten before its pause is over")
			}
			<-woken
			if got := s.busy(preemptor.UID); got != tc.waits {
				t.Errorf("an order is under way: %t, want %t", got, tc.waits)
			}
			if got := s.has(victims[0].UID); got != tc.evicted {
				t.Errorf("the victim that was refused is waited for: %t, want %t", got, tc.evicted)
			}
			third := orderFor(preemptor, victims[:1])
			third.wake = func() {}
			s.evict(*third)
			if again := s.ordered(preemptor.UID).own[victims[0].UID]; !again {
				t.Error("it cannot be evicted again")
			}
		})
	}
}
