// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/tutti-project/tutti/pkg/snapshot"
)

// store holds the objects of the world. Those in it are never changed, only
// replaced. Watchers read the history of changes, which is kept whole: a world
// lives for seconds.
type store struct {
	mu      sync.Mutex
	version int64
	objects map[schema.GroupVersionResource]map[types.NamespacedName]*unstructured.Unstructured
	history []change
	// grown is closed and made anew with every change.
	grown chan struct{}
}

type change struct {
	version  int64
	kind     watch.EventType
	resource schema.GroupVersionResource
	object   *unstructured.Unstructured
}

func newStore(objects []*unstructured.Unstructured) (*store, error) {
	s := &store{objects: map[schema.GroupVersionResource]map[types.NamespacedName]*unstructured.Unstructured{}, grown: make(chan struct{})}
	for _, k := range snapshot.Kinds {
		s.objects[k.Resource] = map[types.NamespacedName]*unstructured.Unstructured{}
	}
	for _, o := range objects {
		k, ok := snapshot.KindOf(o.GroupVersionKind())
		if !ok {
			continue
		}
		s.version++
		stored := o.DeepCopy()
		stored.SetResourceVersion(strconv.FormatInt(s.version, 10))
		if stored.GetUID() == "" {
			stored.SetUID(types.UID(fmt.Sprintf("%s-%d", k.Resource.Resource, s.version)))
		}
		key := snapshot.KeyOf(stored)
		if _, exists := s.objects[k.Resource][key]; exists {
			return nil, fmt.Errorf("%s %s is there twice", k.Kind, key)
		}
		s.objects[k.Resource][key] = stored
	}
	return s, nil
}

func (s *store) get(resource schema.GroupVersionResource, key types.NamespacedName) (*unstructured.Unstructured, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[resource][key]
	return o, ok
}

// list returns the objects in the order of their names, and the version of the
// whole.
func (s *store) list(resource schema.GroupVersionResource) ([]*unstructured.Unstructured, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	objects := slices.SortedFunc(maps.Values(s.objects[resource]), func(a, b *unstructured.Unstructured) int {
		return strings.Compare(snapshot.KeyOf(a).String(), snapshot.KeyOf(b).String())
	})
	return objects, s.version
}

// put stores a new object, or the next state of one: what change makes of a
// copy of the current one, which is nil if there is none. An error of change
// leaves all as it was.
func (s *store) put(resource schema.GroupVersionResource, key types.NamespacedName, update func(current *unstructured.Unstructured) (*unstructured.Unstructured, error)) (*unstructured.Unstructured, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	current, exists := s.objects[resource][key]
	var given *unstructured.Unstructured
	if exists {
		given = current.DeepCopy()
	}
	next, err := update(given)
	if err != nil {
		return nil, err
	}
	s.version++
	next.SetResourceVersion(strconv.FormatInt(s.version, 10))
	s.objects[resource][key] = next
	kind := watch.Added
	if exists {
		kind = watch.Modified
	}
	s.record(kind, resource, next)
	return next, nil
}

// remove deletes the object at once: in this world pods end without delay.
func (s *store) remove(resource schema.GroupVersionResource, key types.NamespacedName) (*unstructured.Unstructured, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	current, ok := s.objects[resource][key]
	if !ok {
		return nil, false
	}
	delete(s.objects[resource], key)
	s.version++
	last := current.DeepCopy()
	last.SetResourceVersion(strconv.FormatInt(s.version, 10))
	s.record(watch.Deleted, resource, last)
	return last, true
}

func (s *store) record(kind watch.EventType, resource schema.GroupVersionResource, o *unstructured.Unstructured) {
	s.history = append(s.history, change{version: s.version, kind: kind, resource: resource, object: o})
	close(s.grown)
	s.grown = make(chan struct{})
}

// next is closed at the next change.
func (s *store) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.grown
}

// after returns the changes later than a version, and what is closed when there
// are more.
func (s *store) after(version int64) ([]change, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := len(s.history)
	for i > 0 && s.history[i-1].version > version {
		i--
	}
	return slices.Clone(s.history[i:]), s.grown
}
