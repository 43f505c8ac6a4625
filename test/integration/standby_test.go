// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	tuttiapi "github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/test/controlplane"
	"github.com/tutti-project/tutti/test/faultproxy"
)

// replica is one of several schedulers, and what it asks of the API server.
type replica struct {
	process *controlplane.Process
	proxy   *faultproxy.Proxy

	mu sync.Mutex
	// watches: it follows the pods.
	watches bool
	// bindings are the paths of those that were passed on. At the one after the
	// first last the process is killed.
	bindings map[string]bool
	last     int
	dead     chan struct{}
}

func startReplica(t *testing.T, plane *controlplane.ControlPlane) *replica {
	t.Helper()
	r := &replica{bindings: map[string]bool{}, last: -1, dead: make(chan struct{})}
	var kubeconfig string
	r.proxy, kubeconfig = countingProxy(t, plane, r.next)
	process, err := plane.StartScheduler("--kubeconfig="+kubeconfig,
		"--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=500ms")
	must(t, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.process = process
	return r
}

func (r *replica) next(request *http.Request) faultproxy.Fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	if strings.HasSuffix(request.URL.Path, "/api/v1/pods") && faultproxy.IsWatch(request) {
		r.watches = true
	}
	if request.Method != http.MethodPost || !strings.HasSuffix(request.URL.Path, "/binding") {
		return faultproxy.Fault{}
	}
	if r.last >= 0 && len(r.bindings) >= r.last {
		if r.process != nil {
			r.process.Kill()
			r.process = nil
			close(r.dead)
		}
		return faultproxy.Refused(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
	}
	r.bindings[request.URL.Path] = true
	return faultproxy.Fault{}
}

// dieAfter kills the process amid its next bindings, when so many have passed.
func (r *replica) dieAfter(bindings int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.bindings)
	r.last = bindings
}

func (r *replica) bound() map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.bindings)
}

func (r *replica) follows(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.watches {
		return fmt.Errorf("the scheduler that stands by does not follow the pods yet")
	}
	return nil
}

// TestOneThatStandsByTakesOverAGangAmidItsBindings: it has written nothing until the
// leader dies, then binds what that one has not, and nothing twice; whichever binding
// was the last one.
func TestOneThatStandsByTakesOverAGangAmidItsBindings(t *testing.T) {
	whole := t
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Dir: t.TempDir()})
	must(t, err)
	t.Cleanup(plane.Stop)
	must(t, plane.CreateNodes(t.Context(), controlplane.Small))
	_, err = plane.StartController("--leader-elect=false")
	must(t, err)

	const size = 6
	leads := startReplica(t, plane)
	for _, bindings := range []int{0, 1, size / 2, size - 1} {
		t.Run(fmt.Sprintf("after %d of %d bindings", bindings, size), func(t *testing.T) {
			s := newScene(t, plane)
			s.run([]step{{
				name: "somebody leads", do: s.create(job("first", workers(2, 8))),
				check: s.bound("first", 2),
			}})
			standby := startReplica(whole, plane) // it outlives this part of the test
			s.run([]step{
				{name: "another one stands by", check: standby.follows},
				{name: "one that does not fit, one that lacks pods, and a single pod", do: func(ctx context.Context) error {
					if err := s.createJob(ctx, job("big", workers(nodes+1, 8))); err != nil {
						return err
					}
					if err := s.createPodGroup(ctx, "short", 2); err != nil {
						return err
					}
					if err := s.createPod(ctx, member("short-0", "short", 8)); err != nil {
						return err
					}
					return s.createPod(ctx, single("single", "", 8))
				}, check: all(s.refused("big", nodes+1), s.placed("single"), s.condition("short", metav1.ConditionFalse, tuttiapi.IncompleteReason))},
			})
			if writes := standby.proxy.Writes(); len(writes) > 0 {
				t.Errorf("the one that stands by has written %v", writes)
			}
			leads.dieAfter(bindings)
			s.run([]step{
				{
					name: "the leader dies amid its bindings",
					do: func(ctx context.Context) error {
						if err := s.createJob(ctx, annotated(job("train", workers(size, 8)), tuttiapi.RequiredTopologyAnnotation, "rack")); err != nil {
							return err
						}
						select {
						case <-leads.dead:
							return nil
						case <-ctx.Done():
							return ctx.Err()
						}
					},
					check: all(s.bound("train", size), s.racks("train", 1)),
				},
				{name: "the verdict is the truth", check: s.condition("train", metav1.ConditionTrue, tuttiapi.GangPlacedReason)},
				{name: "nothing else has changed", check: all(s.refused("big", nodes+1), s.bound("first", 2))},
			})
			before, after := leads.bound(), standby.bound()
			if len(before) != bindings || len(after) != size-bindings {
				t.Errorf("%d pods were bound before and %d after, want %d and %d", len(before), len(after), bindings, size-bindings)
			}
			for path := range after {
				if before[path] {
					t.Errorf("%s was asked for twice", path)
				}
			}
			for _, move := range s.moved() {
				t.Error(move)
			}
			leads = standby
		})
		if t.Failed() {
			return
		}
	}
}
