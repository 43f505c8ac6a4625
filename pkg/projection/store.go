// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// logSize bounds the events kept for a watch that starts late. A watch that
// fell further behind gets what an API server would answer: 410 Gone, and the
// reflector lists again.
const logSize = 8192

// store is an API server for projected PodGroups, of the two verbs that an
// informer needs. Objects in it are immutable.
type store struct {
	// ready is closed when the first projection is complete. List waits for
	// it, so the engine's caches are not called synced before.
	ready chan struct{}

	mu      sync.Mutex
	changed *sync.Cond
	objects map[types.NamespacedName]*schedulingv1beta1.PodGroup
	// log holds the last events in order; log[i] made version first+i+1.
	log   []watch.Event
	first uint64
}

func newStore() *store {
	s := &store{ready: make(chan struct{}), objects: map[types.NamespacedName]*schedulingv1beta1.PodGroup{}}
	s.changed = sync.NewCond(&s.mu)
	return s
}

// set stores the object, or deletes what is there when it is nil.
func (s *store) set(key types.NamespacedName, object *schedulingv1beta1.PodGroup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, existed := s.objects[key]
	version := strconv.FormatUint(s.version()+1, 10)
	switch {
	case object == nil && !existed:
		return
	case object == nil:
		gone := old.DeepCopy()
		gone.ResourceVersion = version
		delete(s.objects, key)
		s.append(watch.Event{Type: watch.Deleted, Object: gone})
	default:
		object.ResourceVersion = version
		s.objects[key] = object
		kind := watch.Added
		if existed {
			kind = watch.Modified
		}
		s.append(watch.Event{Type: kind, Object: object})
	}
}

func (s *store) get(key types.NamespacedName) (*schedulingv1beta1.PodGroup, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	object, ok := s.objects[key]
	return object, ok
}

func (s *store) append(event watch.Event) {
	if len(s.log) == logSize {
		dropped := logSize / 2
		s.log = slices.Clone(s.log[dropped:])
		s.first += uint64(dropped)
	}
	s.log = append(s.log, event)
	s.changed.Broadcast()
}

func (s *store) version() uint64 { return s.first + uint64(len(s.log)) }

// List implements cache.Lister.
func (s *store) List(metav1.ListOptions) (runtime.Object, error) {
	<-s.ready
	s.mu.Lock()
	defer s.mu.Unlock()
	list := &schedulingv1beta1.PodGroupList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.FormatUint(s.version(), 10)}}
	for _, object := range s.objects {
		list.Items = append(list.Items, *object)
	}
	slices.SortFunc(list.Items, func(a, b schedulingv1beta1.PodGroup) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return list, nil
}

// Watch implements cache.Watcher.
func (s *store) Watch(options metav1.ListOptions) (watch.Interface, error) {
	from, err := strconv.ParseUint(options.ResourceVersion, 10, 64)
	if err != nil {
		return nil, apierrors.NewBadRequest("resourceVersion: " + err.Error())
	}
	w := &watcher{store: s, next: from, events: make(chan watch.Event), done: make(chan struct{})}
	go w.run()
	return w, nil
}

// IsWatchListSemanticsUnSupported keeps the reflector from asking for a
// streamed list.
func (s *store) IsWatchListSemanticsUnSupported() bool { return true }

// watcher sends the store's log from one version on. It never drops an event
// and never holds the store's lock while its reader is slow.
type watcher struct {
	store  *store
	next   uint64
	events chan watch.Event
	once   sync.Once
	done   chan struct{}
}

// ResultChan implements watch.Interface.
func (w *watcher) ResultChan() <-chan watch.Event { return w.events }

// Stop implements watch.Interface.
func (w *watcher) Stop() {
	w.once.Do(func() {
		close(w.done)
		w.store.mu.Lock()
		w.store.changed.Broadcast()
		w.store.mu.Unlock()
	})
}

func (w *watcher) run() {
	defer close(w.events)
	for {
		event, ok := w.wait()
		if !ok {
			return
		}
		select {
		case w.events <- event:
		case <-w.done:
			return
		}
		if event.Type == watch.Error {
			return
		}
	}
}

// wait blocks for the next event; false when the watch was stopped.
func (w *watcher) wait() (watch.Event, bool) {
	s := w.store
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		select {
		case <-w.done:
			return watch.Event{}, false
		default:
		}
		if w.next < s.first || w.next > s.version() {
			status := apierrors.NewResourceExpired("the projection has moved on").Status()
			return watch.Event{Type: watch.Error, Object: &status}, true
		}
		if w.next < s.version() {
			event := s.log[w.next-s.first]
			w.next++
			return event, true
		}
		s.changed.Wait()
	}
}
