// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package faultproxy

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

func TestWhatBecomesOfARequest(t *testing.T) {
	for name, tc := range map[string]struct {
		fault       Fault
		wantEffect  bool
		wantCode    int // 0: no answer
		wantsFaults int
	}{
		"it works":                {Fault{}, true, http.StatusOK, 0},
		"it is refused":           {Fault{kind: refused, code: http.StatusConflict}, false, http.StatusConflict, 1},
		"its answer is lost":      {Fault{kind: answerLost, code: http.StatusGatewayTimeout}, true, http.StatusGatewayTimeout, 1},
		"its connection is lost":  {Fault{kind: connectionLost}, true, 0, 1},
		"it is a watch and short": {Fault{kind: endsEarly, after: longestWatch}, true, http.StatusOK, 0},
	} {
		t.Run(name, func(t *testing.T) {
			effect := false
			server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { effect = true }))
			defer server.Close()
			proxy, err := New(&rest.Config{Host: server.URL}, func(*http.Request) Fault { return tc.fault })
			if err != nil {
				t.Fatal(err)
			}
			defer proxy.Close()
			code := 0
			response, err := http.Post(proxy.server.URL+"/api/v1/namespaces/n/pods", "application/json", nil)
			if err == nil {
				code = response.StatusCode
				_ = response.Body.Close()
			}
			if code != tc.wantCode || effect != tc.wantEffect {
				t.Errorf("answer %d, effect %t, want %d, %t", code, effect, tc.wantCode, tc.wantEffect)
			}
			if proxy.Faults() != tc.wantsFaults || proxy.Writes()["pods"] != 1 {
				t.Errorf("counted %d faults and writes %v", proxy.Faults(), proxy.Writes())
			}
		})
	}
}

// TestCloseEndsWatchesThatComeAgain: a program whose connection is cut makes
// another one at once.
func TestCloseEndsWatchesThatComeAgain(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer server.Close()
	for range 20 {
		proxy, err := New(&rest.Config{Host: server.URL}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var watches sync.WaitGroup
		var open atomic.Int64
		for range 8 {
			watches.Go(func() {
				for {
					response, err := http.Get(proxy.server.URL + "/api/v1/pods?watch=true")
					if err != nil {
						return // the proxy is no more
					}
					open.Add(1)
					_, _ = io.Copy(io.Discard, response.Body)
					_ = response.Body.Close()
				}
			})
		}
		for open.Load() < 8 {
			time.Sleep(time.Millisecond)
		}
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			proxy.Close()
		}()
		select {
		case <-closed:
		case <-time.After(time.Minute):
			t.Fatal("the proxy does not end")
		}
		watches.Wait()
	}
}

func TestResourceOf(t *testing.T) {
	for path, want := range map[string]string{
		"/api/v1/namespaces/n/pods/p":                            "pods",
		"/apis/kubeflow.org/v1/namespaces/n/tfjobs/j/status":     "tfjobs",
		"/api/v1/nodes/n001":                                     "nodes",
		"/api/v1/namespaces/n":                                   "namespaces",
		"/apis/authentication.k8s.io/v1/tokenreviews":            "tokenreviews",
		"/apis/coordination.k8s.io/v1/namespaces/n/leases/lease": "leases",
		"/version": "/version",
	} {
		if got := resourceOf(path); got != want {
			t.Errorf("resource of %s is %s, want %s", path, got, want)
		}
	}
}
