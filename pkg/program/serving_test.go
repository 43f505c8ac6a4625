// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
)

// freeAddress is one of this machine's that nobody listens at.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func TestProbesSayHowTheProgramIs(t *testing.T) {
	serving := Serving{HealthAddress: freeAddress(t)}
	var isIll, isReady atomic.Bool
	healthy := func(*http.Request) error {
		if isIll.Load() {
			return errors.New("the lease is lost")
		}
		return nil
	}
	ready := func() error {
		if !isReady.Load() {
			return errors.New("the caches are being filled")
		}
		return nil
	}
	if err := serving.ServeProbes(t.Context(), healthy, ready); err != nil {
		t.Fatal(err)
	}
	expect := func(path string, want int) {
		t.Helper()
		answer, err := http.Get("http://" + serving.HealthAddress + path)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%s answers %d, want %d", path, answer.StatusCode, want)
		}
	}
	expect("/healthz", http.StatusOK)
	expect("/readyz", http.StatusServiceUnavailable)
	isReady.Store(true)
	expect("/readyz", http.StatusOK)
	isIll.Store(true)
	expect("/healthz", http.StatusServiceUnavailable)
	expect("/metrics", http.StatusNotFound)

	if err := serving.ServeProbes(t.Context(), healthy, ready); err == nil {
		t.Error("an address that is in use is no error")
	}
	for _, off := range []string{"", "0"} {
		serving.HealthAddress = off
		if err := serving.ServeProbes(t.Context(), healthy, ready); err != nil {
			t.Errorf("turned off by %q: %v", off, err)
		}
	}
}
