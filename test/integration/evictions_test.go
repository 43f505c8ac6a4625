// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-project/tutti/test/controlplane"
	"github.com/tutti-project/tutti/test/faultproxy"
)

// evictions is what becomes of the requests by which one gang's pods are evicted:
// some fault for each, from the first to the last.
type evictions struct {
	mu sync.Mutex
	// path begins that of the gang's pods; empty harms nothing.
	path  string
	fault func(r *http.Request, n int) faultproxy.Fault
	asked map[string]int // by method
}

func (e *evictions) watch(path string, fault func(r *http.Request, n int) faultproxy.Fault) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.path, e.fault, e.asked = path, fault, map[string]int{}
}

func (e *evictions) count(method string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.asked[method]
}

func (e *evictions) next(r *http.Request) faultproxy.Fault {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.path == "" || !strings.Contains(r.URL.Path, e.path) || r.Method != http.MethodPatch && r.Method != http.MethodDelete {
		return faultproxy.Fault{}
	}
	e.asked[r.Method]++
	return e.fault(r, e.asked[r.Method])
}

// TestNoGangIsLeftTornByAnEviction: whatever request of an eviction is the last one
// of a scheduler, and whichever is refused for a while, the victim has gone whole in
// the end, though the preemptor needs but a part of its room.
func TestNoGangIsLeftTornByAnEviction(t *testing.T) {
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Dir: t.TempDir()})
	must(t, err)
	t.Cleanup(plane.Stop)
	must(t, plane.CreateNodes(t.Context(), controlplane.Small))
	faults := &evictions{}
	kubeconfig := schedulerProxy(t, plane, faults.next)
	scheduler := mortalScheduler(t, plane, "--kubeconfig="+kubeconfig)
	_, err = plane.StartController("--leader-elect=false")
	must(t, err)
	classesOn(t, plane)

	const size, wanted = 6, 2
	around := newScene(t, plane)
	around.run([]step{{
		name: "important pods leave room for one gang",
		do: func(ctx context.Context) error {
			return around.createElastic(ctx, "filler", 1, nodes-size, nil, func(_ int, pod *corev1.Pod) { pod.Spec.PriorityClassName = "high" })
		},
		check: around.bound("filler", nodes-size),
	}})
	run := func(t *testing.T, fault func(r *http.Request, n int) faultproxy.Fault, between func(context.Context, *scene) error) {
		s := newScene(t, plane)
		faults.watch("", nil)
		s.run([]step{
			{name: "a gang", do: s.create(atOnce(ofClass("", job("small", workers(size, 8))))), check: s.bound("small", size)},
			{
				name: "one that is more important",
				do: func(ctx context.Context) error {
					faults.watch("/namespaces/"+s.namespace+"/pods/small-", fault)
					if err := s.create(ofClass("high", job("urgent", workers(wanted, 8))))(ctx); err != nil {
						return err
					}
					return between(ctx, s)
				},
				check: all(s.bound("urgent", wanted), s.refused("small", size)),
			},
			{name: "it stays so", check: stays(all(s.bound("urgent", wanted), s.refused("small", size)))},
			{
				name:  "the important one ends",
				do:    func(ctx context.Context) error { return s.deleteJob(ctx, "urgent") },
				check: s.bound("small", size),
			},
		})
		if n := s.evicted("small"); n != size {
			t.Errorf("%d pods of the gang were evicted, want %d, each once", n, size)
		}
		if n := around.evicted("filler"); n != 0 {
			t.Errorf("%d important pods were evicted", n)
		}
		for _, move := range s.moved() {
			t.Error(move)
		}
	}

	for _, method := range []string{http.MethodPatch, http.MethodDelete} {
		for last := range size {
			t.Run(fmt.Sprintf("it dies at %s %d", method, last+1), func(t *testing.T) {
				dead := make(chan struct{})
				var once sync.Once
				run(t, func(r *http.Request, n int) faultproxy.Fault {
					if r.Method != method || n <= last {
						return faultproxy.Fault{}
					}
					once.Do(func() {
						scheduler.process.Kill()
						close(dead)
					})
					return faultproxy.Refused(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
				}, func(ctx context.Context, s *scene) error {
					<-dead
					faults.watch("", nil)
					return scheduler.start()
				})
			})
		}
	}
	for _, method := range []string{http.MethodPatch, http.MethodDelete} {
		t.Run("three times one "+method+" is forbidden", func(t *testing.T) {
			const refusals = 3
			refused := 0
			run(t, func(r *http.Request, _ int) faultproxy.Fault {
				if r.Method == method && strings.Contains(r.URL.Path, "small-worker-2") && refused < refusals {
					refused++
					return faultproxy.Refused(http.StatusForbidden, metav1.StatusReasonForbidden)
				}
				return faultproxy.Fault{}
			}, func(ctx context.Context, s *scene) error {
				return s.plane.Eventually(ctx, patience, func(context.Context) error {
					faults.mu.Lock()
					defer faults.mu.Unlock()
					if refused < refusals {
						return errors.New("not all requests were refused yet")
					}
					return nil
				})
			})
			if n, most := faults.count(method), size*(refusals+2); n > most {
				t.Errorf("%d requests, want at most %d: each failure is to be followed by a pause", n, most)
			}
		})
	}
}
