// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func send(t *testing.T, to http.RoundTripper, method, path string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://127.0.0.1"+path, nil)
	if err != nil {
		t.Error(err)
		return
	}
	if _, err := to.RoundTrip(request); err != nil { //nolint:bodyclose // there is none
		t.Error(err)
	}
}

const (
	binding = "/api/v1/namespaces/ns/pods/p/binding"
	event   = "/apis/events.k8s.io/v1/namespaces/ns/events"
)

func TestLanesBoundBindingsAndEvents(t *testing.T) {
	for name, tc := range map[string]struct {
		method, path string
		want         int64
	}{
		"bindings are bounded":        {http.MethodPost, binding, bindingsInFlight},
		"events are bounded":          {http.MethodPost, event, eventsInFlight},
		"status patches are not":      {http.MethodPatch, "/api/v1/namespaces/ns/pods/p/status", 4 * bindingsInFlight},
		"reading a pod named binding": {http.MethodGet, "/api/v1/namespaces/ns/pods/binding", 4 * bindingsInFlight},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var now, most atomic.Int64
				bounded := newLanes().wrap(transport(func(*http.Request) (*http.Response, error) {
					n := now.Add(1)
					defer now.Add(-1)
					for seen := most.Load(); n > seen && !most.CompareAndSwap(seen, n); seen = most.Load() {
					}
					time.Sleep(time.Second)
					return nil, nil
				}))
				var group sync.WaitGroup
				for range 4 * bindingsInFlight {
					group.Go(func() { send(t, bounded, tc.method, tc.path) })
				}
				group.Wait()
				if got := most.Load(); got != tc.want {
					t.Errorf("%d requests were in flight, want %d", got, tc.want)
				}
			})
		})
	}
}

func TestLanesLetEventsWaitForBindings(t *testing.T) {
	for name, tc := range map[string]struct{ bindings, want time.Duration }{
		"until they are done":    {time.Second, time.Second},
		"but not for ever":       {time.Minute, eventDelay},
		"not at all without any": {0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shared := newLanes()
				slow := shared.wrap(transport(func(*http.Request) (*http.Response, error) {
					time.Sleep(tc.bindings)
					return nil, nil
				}))
				begin := time.Now()
				var sent time.Duration
				events := shared.wrap(transport(func(*http.Request) (*http.Response, error) {
					sent = time.Since(begin)
					return nil, nil
				}))
				var group sync.WaitGroup
				group.Go(func() { send(t, slow, http.MethodPost, binding) })
				synctest.Wait()
				send(t, events, http.MethodPost, event)
				group.Wait()
				if sent != tc.want {
					t.Errorf("the event was sent after %s, want %s", sent, tc.want)
				}
			})
		})
	}
}
