// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
)

// recorder watches a namespace from its beginning and remembers when each pod
// was bound and when it was seen to go.
type recorder struct {
	mu   sync.Mutex
	seen []*life // in the order of creation
	byID map[types.UID]*life
	// moves are bindings that changed: none may.
	moves       []string
	bound, gone int
	// alarms wait for numbers of pods, bindings and departures.
	alarms []alarm
}

// alarm rings once, when so many pods, bindings and departures were seen.
type alarm struct {
	created, bound, gone int
	ring                 func()
}

// life is what was seen of one pod. A time that is zero has not come.
type life struct {
	gang, name, node string
	bound, gone      time.Time
	// created is the resource version at which the pod was first seen.
	created uint64
}

// record starts a recorder; it ends with ctx.
func record(ctx context.Context, client kubernetes.Interface, namespace string) (*recorder, error) {
	pods := client.CoreV1().Pods(namespace)
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	// A retry watcher goes on from the last version that it has seen, so
	// nothing is missed when a connection ends.
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return pods.Watch(ctx, o)
		},
	})
	if err != nil {
		return nil, err
	}
	r := &recorder{byID: map[types.UID]*life{}}
	go func() {
		for event := range watcher.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok {
				r.see(pod, event.Type == watch.Deleted)
			}
		}
	}()
	return r, nil
}

func (r *recorder) see(pod *corev1.Pod, deleted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.byID[pod.UID]
	if l == nil {
		l = &life{gang: pod.Labels[v1alpha1.PodGroupLabel], name: pod.Name}
		l.created, _ = strconv.ParseUint(pod.ResourceVersion, 10, 64) // an API server's are numbers
		r.byID[pod.UID] = l
		r.seen = append(r.seen, l)
	}
	now := time.Now()
	if node := pod.Spec.NodeName; node != "" && node != l.node {
		if l.node != "" {
			r.moves = append(r.moves, fmt.Sprintf("pod %s moved from %s to %s", l.name, l.node, node))
		}
		l.node, l.bound = node, now
		r.bound++
	}
	if (deleted || pod.DeletionTimestamp != nil) && l.gone.IsZero() {
		l.gone = now
		r.gone++
	}
	r.alarms = slices.DeleteFunc(r.alarms, func(a alarm) bool {
		due := len(r.seen) >= a.created && r.bound >= a.bound && r.gone >= a.gone
		if due {
			go a.ring()
		}
		return due
	})
}

// when calls do once so many pods and bindings were seen; the channel is closed
// after that.
func (r *recorder) when(created, bound int, do func()) <-chan struct{} {
	return r.at(alarm{created: created, bound: bound}, do)
}

// whenGone is when for pods that begin to go.
func (r *recorder) whenGone(gone int, do func()) <-chan struct{} { return r.at(alarm{gone: gone}, do) }

func (r *recorder) at(a alarm, do func()) <-chan struct{} {
	done := make(chan struct{})
	a.ring = func() {
		defer close(done)
		do()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.alarms = append(r.alarms, a)
	return done
}

// moved are the bindings that changed.
func (r *recorder) moved() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.moves)
}

// members are the lives of a gang's pods.
func (r *recorder) members(gang string) []life {
	r.mu.Lock()
	defer r.mu.Unlock()
	var members []life
	for _, l := range r.seen {
		if l.gang == gang {
			members = append(members, *l)
		}
	}
	return members
}

// firstCreation is the version of the first pod's creation, and how many pods
// there were.
func (r *recorder) firstCreation() (version uint64, pods int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.seen {
		if version == 0 || l.created < version {
			version = l.created
		}
	}
	return version, len(r.seen)
}

// boundSince is when the first pod of a gang was bound.
func (r *recorder) boundSince(gang string) (time.Time, bool) {
	times := boundTimes(r.members(gang))
	if len(times) == 0 {
		return time.Time{}, false
	}
	return times[0], true
}

// goneSince is when the first pod of a gang was seen to go.
func (r *recorder) goneSince(gang string) (time.Time, bool) {
	var first time.Time
	for _, l := range r.members(gang) {
		if !l.gone.IsZero() && (first.IsZero() || l.gone.Before(first)) {
			first = l.gone
		}
	}
	return first, !first.IsZero()
}

// expectWhole fails the test when fewer than size pods of the gang, but some,
// were bound for longer than a moment, or when a pod was bound twice.
func (r *recorder) expectWhole(t *testing.T, gang string, size int) {
	t.Helper()
	if part := r.partlyBound(gang, size, time.Now()); part > atRest {
		t.Errorf("gang %s was bound in part for %s", gang, part)
	}
	for _, move := range r.moved() {
		t.Error(move)
	}
}

// partlyBound is how long the gang was bound in part: from its first binding to
// the one that made it whole, to the first pod that went, or to now.
func (r *recorder) partlyBound(gang string, size int, now time.Time) time.Duration {
	times := boundTimes(r.members(gang))
	if len(times) == 0 {
		return 0
	}
	if len(times) >= size {
		return times[size-1].Sub(times[0])
	}
	if gone, any := r.goneSince(gang); any {
		return gone.Sub(times[0])
	}
	return now.Sub(times[0])
}

func boundTimes(members []life) []time.Time {
	var times []time.Time
	for _, l := range members {
		if !l.bound.IsZero() {
			times = append(times, l.bound)
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	return times
}
