// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"strings"

	"golang.org/x/sync/semaphore"
)

// bindingsInFlight bounds concurrent binding requests. The engine starts one
// goroutine per pod of a gang at once; an API server binds a thousand pods
// three times faster from a few dozen requests at a time than from a thousand.
const bindingsInFlight = 32

// boundedBindings is a transport that lets few binding requests through at a
// time and all others freely.
type boundedBindings struct {
	next http.RoundTripper
	room *semaphore.Weighted
}

func boundBindings(next http.RoundTripper) http.RoundTripper {
	return &boundedBindings{next: next, room: semaphore.NewWeighted(bindingsInFlight)}
}

// RoundTrip implements http.RoundTripper.
func (b *boundedBindings) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodPost || !strings.HasSuffix(request.URL.Path, "/binding") {
		return b.next.RoundTrip(request)
	}
	if err := b.room.Acquire(request.Context(), 1); err != nil {
		return nil, err
	}
	defer b.room.Release(1)
	return b.next.RoundTrip(request)
}
