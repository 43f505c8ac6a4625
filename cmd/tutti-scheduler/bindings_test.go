// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
)

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestBoundBindingsLimitsBindingsOnly(t *testing.T) {
	for name, tc := range map[string]struct {
		method, path string
		want         int64
	}{
		"bindings are bounded":        {http.MethodPost, "/api/v1/namespaces/ns/pods/p/binding", bindingsInFlight},
		"other requests are not":      {http.MethodPost, "/api/v1/namespaces/ns/events", 4 * bindingsInFlight},
		"reading a pod named binding": {http.MethodGet, "/api/v1/namespaces/ns/pods/binding", 4 * bindingsInFlight},
	} {
		t.Run(name, func(t *testing.T) {
			var now, most atomic.Int64
			full := make(chan struct{})
			release := sync.OnceFunc(func() { close(full) })
			bounded := boundBindings(transport(func(*http.Request) (*http.Response, error) {
				n := now.Add(1)
				defer now.Add(-1)
				for seen := most.Load(); n > seen && !most.CompareAndSwap(seen, n); seen = most.Load() {
				}
				if n == tc.want {
					release()
				}
				<-full // held until as many as may be are in flight
				return nil, nil
			}))
			var group sync.WaitGroup
			for range 4 * bindingsInFlight {
				group.Go(func() {
					request, _ := http.NewRequestWithContext(t.Context(), tc.method, "http://127.0.0.1"+tc.path, nil)
					_, _ = bounded.RoundTrip(request) //nolint:bodyclose // there is none
				})
			}
			group.Wait()
			if got := most.Load(); got != tc.want {
				t.Errorf("%d requests were in flight, want %d", got, tc.want)
			}
		})
	}
}
