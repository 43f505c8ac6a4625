// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-base/metrics/testutil"

	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
	"github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/pkg/discovery"
	topologyfake "github.com/tutti-project/tutti/pkg/generated/clientset/versioned/fake"
)

// fakeSource answers what it is told to.
type fakeSource struct {
	name string

	mu    sync.Mutex
	facts discovery.Facts
	err   error
	hangs bool
	stuck chan struct{} // hangs until it is closed, whatever it is told
	asked int
	last  time.Time // when it was asked
	kick  func()
}

func (s *fakeSource) Name() string { return s.name }

func (s *fakeSource) Discover(ctx context.Context) (discovery.Facts, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked, s.last = s.asked+1, time.Now()
	if s.stuck != nil {
		s.mu.Unlock()
		<-s.stuck
		s.mu.Lock()
	}
	if s.hangs {
		s.mu.Unlock()
		<-ctx.Done()
		s.mu.Lock()
		return discovery.Facts{}, ctx.Err()
	}
	return s.facts, s.err
}

func (s *fakeSource) set(facts discovery.Facts, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.facts, s.err = facts, err
}

// times is how often it was asked.
func (s *fakeSource) times() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// Watch lets a test say that something has changed.
func (s *fakeSource) Watch(ctx context.Context, changed func()) {
	s.mu.Lock()
	s.kick = changed
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	stuck := s.stuck
	s.mu.Unlock()
	if stuck != nil {
		<-stuck
	}
}

// world is an agent in an API server of its own.
type world struct {
	t          *testing.T
	topologies *topologyfake.Clientset
	kube       *fake.Clientset
	driver     *fakeSource
	kubelet    *fakeSource
	away       atomic.Bool  // the API server
	refused    atomic.Int64 // requests meanwhile
	react      atomic.Pointer[clienttesting.ReactionFunc]
	atEnd      func()
}

func hardware(gpus int) *v1alpha1.NodeTopologySpec {
	spec := &v1alpha1.NodeTopologySpec{}
	for i := range gpus {
		spec.GPUs = append(spec.GPUs, v1alpha1.GPU{Index: int32(i), UUID: fmt.Sprintf("GPU-%d", i)})
	}
	return spec
}

// given are devices of which pods p0, p1, ... have the first ones.
func given(gpus, pods int) *discovery.Devices {
	devices := &discovery.Devices{}
	for i := range gpus {
		id := fmt.Sprintf("GPU-%d", i)
		devices.Allocatable = append(devices.Allocatable, id)
		if i < pods {
			devices.Given = append(devices.Given, discovery.Given{Namespace: "n", Pod: fmt.Sprintf("p%d", i), IDs: []string{id}})
		}
	}
	return devices
}

// play runs an agent on a node of four GPUs while the script goes on. Its hours take no time.
func play(t *testing.T, script func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			t:          t,
			topologies: topologyfake.NewSimpleClientset(),
			kube:       fake.NewSimpleClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node-uid"}}),
			driver:     &fakeSource{name: "driver", facts: discovery.Facts{Hardware: hardware(4)}},
			kubelet:    &fakeSource{name: "kubelet", facts: discovery.Facts{Devices: given(4, 0)}},
		}
		refuse := func(action clienttesting.Action) (bool, runtime.Object, error) {
			if w.away.Load() {
				w.refused.Add(1)
				return true, nil, errors.New("connection refused")
			}
			if react := w.react.Load(); react != nil && action.GetVerb() == "update" {
				return (*react)(action)
			}
			return false, nil, nil
		}
		w.topologies.PrependReactor("*", "*", refuse)
		w.kube.PrependReactor("*", "*", refuse)
		a := New(Clients{Kube: w.kube, Topology: w.topologies}, Options{
			Node:      "n1",
			Polls:     []Poll{{w.driver, 30 * time.Second}, {w.kubelet, 5 * time.Second}},
			Heartbeat: 5 * time.Minute,
			Now:       time.Now,
			Random:    rand.Float64,
		})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { a.Run(ctx); close(done) }()
		script(w)
		if err := a.Healthy(); err != nil {
			t.Error(err)
		}
		stop()
		<-done
		if w.atEnd != nil {
			w.atEnd()
		}
	})
}

// after lets time pass.
func (w *world) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// onUpdate has updates answered otherwise.
func (w *world) onUpdate(react clienttesting.ReactionFunc) { w.react.Store(&react) }

func (w *world) object() *v1alpha1.NodeTopology {
	w.t.Helper()
	object, err := w.topologies.Tracker().Get(v1alpha1.SchemeGroupVersion.WithResource("nodetopologies"), "", "n1")
	if err != nil {
		w.t.Fatal(err)
	}
	return object.(*v1alpha1.NodeTopology)
}

// ready is the condition as "True Reason".
func (w *world) ready() string {
	w.t.Helper()
	conditions := w.object().Status.Conditions
	if len(conditions) != 1 {
		w.t.Fatalf("conditions %+v", conditions)
	}
	return string(conditions[0].Status) + " " + conditions[0].Reason
}

// writes are the requests that changed something since the last call.
func (w *world) writes() int {
	n := 0
	for _, action := range append(w.topologies.Actions(), w.kube.Actions()...) {
		if action.GetVerb() != "get" {
			n++
		}
	}
	w.topologies.ClearActions()
	w.kube.ClearActions()
	return n
}

func (w *world) requests() int { return len(w.topologies.Actions()) + len(w.kube.Actions()) }

func TestAtRestOnlyHeartbeatsAreWritten(t *testing.T) {
	play(t, func(w *world) {
		w.after(10 * time.Second)
		object := w.object()
		if got := w.ready(); got != "True Seen" || len(object.Spec.GPUs) != 4 || len(object.Status.Free) != 4 {
			t.Fatalf("first: %s, %+v", got, object)
		}
		if owner := object.OwnerReferences; len(owner) != 1 || owner[0].Kind != "Node" || owner[0].UID != "node-uid" {
			t.Errorf("owner %+v", owner)
		}
		if n := w.writes(); n != 3 { // made, spec, status
			t.Errorf("%d writes at first, want 3", n)
		}
		w.after(time.Hour)
		requests := w.requests()
		if n := w.writes(); n < 12 || n > 16 || requests != n {
			t.Errorf("%d writes and %d requests in an hour, want 12 to 16 heartbeats and nothing else", n, requests)
		}
		for range 1000 {
			w.after(7 * time.Second)
			// Times in objects are whole seconds.
			if age := time.Since(w.object().Status.HeartbeatTime.Time); age > 5*time.Minute+time.Second {
				t.Fatalf("the heartbeat is %v old", age)
			}
		}
	})
}

func TestChangesAreWrittenSoonAndTogether(t *testing.T) {
	play(t, func(w *world) {
		w.after(time.Minute)
		w.writes()
		w.kubelet.set(discovery.Facts{Devices: given(4, 1)}, nil)
		w.after(7 * time.Second)
		if free := w.object().Status.Free; strings.Join(free, " ") != "GPU-1 GPU-2 GPU-3" {
			t.Errorf("free: %v", free)
		}
		for pods := range 4 { // the rest of the gang
			w.kubelet.set(discovery.Facts{Devices: given(4, pods+1)}, nil)
			w.kubelet.kick()
			w.after(100 * time.Millisecond)
		}
		w.after(3 * time.Second)
		status := w.object().Status
		if n := w.writes(); n != 2 || len(status.Free) != 0 || len(status.Given) != 4 {
			t.Errorf("%d writes, want 2; %+v", n, status)
		}
		if want := v1alpha1.FingerprintOf([]string{"n/p3", "n/p2", "n/p1", "n/p0"}); status.Fingerprint != want {
			t.Errorf("fingerprint %s, want %s", status.Fingerprint, want)
		}
	})
}

// TestAReportIsASecondYoungerThanWhatItTells, though a heartbeat was due just then: for readers a pod
// of the heartbeat's second came after it.
func TestAReportIsASecondYoungerThanWhatItTells(t *testing.T) {
	play(t, func(w *world) {
		w.after(time.Minute)
		for i := range 400 {
			w.after(time.Duration(9000+37*i%1000) * time.Millisecond)
			changed := time.Now()
			w.kubelet.set(discovery.Facts{Devices: given(4, 1+i%2)}, nil)
			w.kubelet.kick()
			w.after(4 * time.Second)
			status := w.object().Status
			if len(status.Given) != 1+i%2 || !status.HeartbeatTime.Time.Truncate(time.Second).After(changed.Truncate(time.Second)) {
				t.Fatalf("change %d at %v: %d pods at %v", i, changed, len(status.Given), status.HeartbeatTime)
			}
		}
	})
}

func TestWhileTheAPIServerIsAwayTheAgentGoesOn(t *testing.T) {
	play(t, func(w *world) {
		w.after(time.Minute)
		w.away.Store(true)
		w.after(5 * time.Hour)
		if n := w.refused.Load(); n > 5*120 {
			t.Errorf("%d requests in five hours", n)
		}
		asked := w.kubelet.times()
		w.kubelet.set(discovery.Facts{Devices: given(4, 3)}, nil)
		w.after(time.Minute)
		if w.kubelet.times() == asked {
			t.Error("the kubelet is not asked any more")
		}
		w.away.Store(false)
		w.after(retryAtMost + 5*time.Second)
		if status := w.object().Status; status.FreeCount != 1 || time.Since(status.HeartbeatTime.Time) > 2*time.Minute {
			t.Errorf("not up to date: %+v", status)
		}
	})
}

func TestTheAPIServerMayBeAwayAtFirst(t *testing.T) {
	play(t, func(w *world) {
		w.away.Store(true)
		w.after(time.Hour)
		w.away.Store(false)
		w.after(retryAtMost + 5*time.Second)
		if got := w.ready(); got != "True Seen" {
			t.Error(got)
		}
	})
}

func TestHardwareThatIsNotSeenAnyMoreIsKept(t *testing.T) {
	play(t, func(w *world) {
		w.after(time.Minute)
		w.driver.set(discovery.Facts{}, discovery.Unavailablef("DriverNotLoaded", "gone"))
		w.after(10 * time.Minute)
		object := w.object()
		if got := w.ready(); got != "False DriverNotLoaded" || len(object.Spec.GPUs) != 4 || object.Status.FreeCount != 0 {
			t.Errorf("%s, %+v", got, object)
		}
		w.driver.set(discovery.Facts{Hardware: hardware(4)}, nil)
		w.after(2 * time.Minute)
		if got := w.ready(); got != "True Seen" {
			t.Error(got)
		}
	})
}

func TestHardwareThatWasNeverSeenIsAState(t *testing.T) {
	play(t, func(w *world) {
		w.driver.set(discovery.Facts{}, discovery.Unavailablef("LibraryNotFound", "no driver"))
		w.after(time.Minute)
		if got := w.ready(); got != "False LibraryNotFound" || len(w.object().Spec.GPUs) != 0 {
			t.Errorf("%s, %+v", got, w.object())
		}
	})
}

// TestAKubeletThatRestartsMakesNoNodeUnknown, but one that stays away does.
func TestAKubeletThatRestartsMakesNoNodeUnknown(t *testing.T) {
	play(t, func(w *world) {
		w.after(time.Minute)
		w.writes()
		w.kubelet.set(discovery.Facts{}, discovery.Unavailablef("KubeletUnreachable", "away"))
		w.after(20 * time.Second)
		w.kubelet.set(discovery.Facts{Devices: given(4, 0)}, nil)
		w.after(time.Minute)
		if n := w.writes(); n != 0 || w.ready() != "True Seen" {
			t.Errorf("%d writes, %s", n, w.ready())
		}
		w.kubelet.set(discovery.Facts{}, discovery.Unavailablef("KubeletUnreachable", "away"))
		w.after(3 * time.Minute)
		if got := w.ready(); got != "False KubeletUnreachable" || w.object().Status.FreeCount != 0 {
			t.Error(got)
		}
	})
}

func TestASourceThatHangsKeepsNothingElseFromBeingPublished(t *testing.T) {
	play(t, func(w *world) {
		w.driver.mu.Lock()
		w.driver.hangs = true
		w.driver.mu.Unlock()
		w.after(2 * time.Minute)
		if got := w.ready(); got != "False NoAnswer" {
			t.Error(got)
		}
		w.writes()
		w.after(time.Hour)
		if n := w.writes(); n > 15 {
			t.Errorf("%d writes in an hour of which nothing can be seen", n)
		}
	})
}

// TestNoRestartOfAKubeletIsSeen, in whatever second of the heartbeat it comes.
func TestNoRestartOfAKubeletIsSeen(t *testing.T) {
	play(t, func(w *world) {
		w.after(time.Minute)
		w.onUpdate(func(action clienttesting.Action) (bool, runtime.Object, error) {
			conditions := action.(clienttesting.UpdateAction).GetObject().(*v1alpha1.NodeTopology).Status.Conditions
			if len(conditions) == 1 && conditions[0].Status != metav1.ConditionTrue {
				t.Errorf("the node was made unknown: %+v", conditions)
			}
			return false, nil, nil
		})
		for range 2000 {
			w.after(time.Duration(20+rand.IntN(40)) * time.Second)
			w.kubelet.set(discovery.Facts{}, discovery.Unavailablef("KubeletUnreachable", "away"))
			w.after(time.Duration(14000+rand.IntN(6000)) * time.Millisecond)
			w.kubelet.set(discovery.Facts{Devices: given(4, 0)}, nil)
		}
	})
}

// TestADriverThatHangsKeepsNothingFromEnding.
func TestADriverThatHangsKeepsNothingFromEnding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		answers := Look(ctx, []discovery.Source{&fakeSource{name: "driver", stuck: stuck}})
		var unavailable *discovery.Unavailable
		if !errors.As(answers[0].Err, &unavailable) || unavailable.Reason != "NoAnswer" {
			t.Errorf("answers %+v", answers)
		}
		close(stuck)
	})
	play(t, func(w *world) {
		stuck := make(chan struct{})
		w.driver.mu.Lock()
		w.driver.stuck = stuck
		w.driver.mu.Unlock()
		w.after(10 * time.Minute)
		if got := w.ready(); got != "False NoAnswer" {
			t.Error(got)
		}
		if up, err := testutil.GetGaugeMetricValue(sourceUp.WithLabelValues("driver")); up != 0 || err != nil {
			t.Errorf("the driver counts as up: %v, %v", up, err)
		}
		w.atEnd = func() { close(stuck) }
	})
}

// TestWhatTheAPIServerRefusesIsSaid: neither does the object grow old without a word, nor is what was
// written before taken for true.
func TestWhatTheAPIServerRefusesIsSaid(t *testing.T) {
	for _, part := range []string{"", "status"} {
		play(t, func(w *world) {
			w.after(time.Minute)
			w.onUpdate(func(action clienttesting.Action) (bool, runtime.Object, error) {
				object := action.(clienttesting.UpdateAction).GetObject().(*v1alpha1.NodeTopology)
				if action.GetSubresource() != part || part == "" && len(object.Spec.GPUs) < 5 || len(object.Status.Given) == 0 && part != "" {
					return false, nil, nil
				}
				return true, nil, apierrors.NewInvalid(v1alpha1.SchemeGroupVersion.WithKind("NodeTopology").GroupKind(), "n1",
					field.ErrorList{field.Duplicate(field.NewPath("gpus"), "x")})
			})
			bad, good := discovery.Facts{Hardware: hardware(5)}, discovery.Facts{Hardware: hardware(4)}
			source := w.driver
			if part != "" {
				bad, good, source = discovery.Facts{Devices: given(4, 1)}, discovery.Facts{Devices: given(4, 0)}, w.kubelet
			}
			source.set(bad, nil)
			w.after(time.Minute)
			w.writes()
			w.after(time.Hour)
			object := w.object()
			if got := w.ready(); got != "False NotAccepted" || !strings.Contains(object.Status.Conditions[0].Message, "gpus: Duplicate") || len(object.Status.Free) > 0 {
				t.Errorf("%q: %s, %+v", part, got, object.Status)
			}
			if age := time.Since(object.Status.HeartbeatTime.Time); age > 5*time.Minute {
				t.Errorf("%q: the heartbeat is %v old", part, age)
			}
			if n := w.writes(); n > 2*60+30 { // one that is refused every half a minute to a minute, and heartbeats
				t.Errorf("%q: %d writes in an hour", part, n)
			}
			source.set(good, nil)
			w.after(2 * time.Minute)
			if got := w.ready(); got != "True Seen" {
				t.Errorf("%q: in the end %s", part, got)
			}
		})
	}
}

// TestAHeartbeatIsNotYoungerThanWhatItTells: a pod that came after the kubelet was asked is not in the
// report, though one of its name may be; for readers it is not, when it came after the heartbeat.
func TestAHeartbeatIsNotYoungerThanWhatItTells(t *testing.T) {
	play(t, func(w *world) {
		var told atomic.Int64
		w.onUpdate(func(action clienttesting.Action) (bool, runtime.Object, error) {
			if action.GetSubresource() == "status" {
				told.Add(1)
				w.kubelet.mu.Lock()
				defer w.kubelet.mu.Unlock()
				beat := action.(clienttesting.UpdateAction).GetObject().(*v1alpha1.NodeTopology).Status.HeartbeatTime
				if late := beat.Sub(w.kubelet.last); late > debounce {
					t.Errorf("the heartbeat is %v younger than the kubelet's answer", late)
				}
			}
			return false, nil, nil
		})
		w.after(5 * time.Hour)
		if n := told.Load(); n < 5*12 {
			t.Errorf("%d heartbeats", n)
		}
	})
}

func TestWhatOthersDeleteOrChangeComesBack(t *testing.T) {
	play(t, func(w *world) {
		w.after(time.Minute)
		resource := v1alpha1.SchemeGroupVersion.WithResource("nodetopologies")
		if err := w.topologies.Tracker().Delete(resource, "", "n1"); err != nil {
			t.Fatal(err)
		}
		w.after(5 * time.Minute)
		if got := w.ready(); got != "True Seen" || len(w.object().Spec.GPUs) != 4 {
			t.Error(got)
		}
		changed := w.object().DeepCopy()
		changed.Spec.GPUs = changed.Spec.GPUs[:1]
		if err := w.topologies.Tracker().Update(resource, changed, ""); err != nil {
			t.Fatal(err)
		}
		conflicts := 0
		w.onUpdate(func(clienttesting.Action) (bool, runtime.Object, error) {
			if conflicts++; conflicts > 1 {
				return false, nil, nil
			}
			return true, nil, apierrors.NewConflict(resource.GroupResource(), "n1", errors.New("changed"))
		})
		w.after(5 * time.Minute)
		if n := len(w.object().Spec.GPUs); n != 4 {
			t.Errorf("%d GPUs", n)
		}
	})
}

func TestTheNodesLabelFollowsTheFabric(t *testing.T) {
	label := func(w *world) string {
		node, err := w.kube.Tracker().Get(corev1.SchemeGroupVersion.WithResource("nodes"), "", "n1")
		if err != nil {
			t.Fatal(err)
		}
		return node.(*corev1.Node).Labels[tutti.NVLinkDomainLabel]
	}
	play(t, func(w *world) {
		fabric := hardware(4)
		fabric.Fabric = &v1alpha1.Fabric{ClusterUUID: "7b968a6d-c8aa-45e1-9e07-e1e51be99c31", CliqueID: 1}
		w.driver.set(discovery.Facts{Hardware: fabric}, nil)
		w.after(time.Minute)
		if got := label(w); got != "7b968a6d-c8aa-45e1-9e07-e1e51be99c31.1" {
			t.Errorf("label %q", got)
		}
		w.driver.set(discovery.Facts{}, discovery.Unavailablef("DriverNotLoaded", "gone"))
		w.after(10 * time.Minute)
		if got := label(w); got == "" {
			t.Error("what is not known takes the label away")
		}
		w.driver.set(discovery.Facts{Hardware: hardware(4)}, nil)
		w.after(2 * time.Minute)
		if got := label(w); got != "" {
			t.Errorf("label %q of a node without a fabric", got)
		}
	})
}
