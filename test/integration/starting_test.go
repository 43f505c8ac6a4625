// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	tuttiapi "github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/test/controlplane"
	"github.com/tutti-project/tutti/test/faultproxy"
)

// TestGangThatIsStartingIsNotLeftInPart: one binding fails. A gang of higher priority
// leaves the room of that pod alone and goes elsewhere, whether the scheduler lives or
// dies. If somebody does take the room, all of the gang gives up its nodes.
func TestGangThatIsStartingIsNotLeftInPart(t *testing.T) {
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Dir: t.TempDir()})
	must(t, err)
	t.Cleanup(plane.Stop)
	must(t, plane.CreateNodes(t.Context(), controlplane.Small))
	var faults atomic.Pointer[bindingFaults]
	faults.Store(&bindingFaults{})
	kubeconfig := schedulerProxy(t, plane, func(r *http.Request) faultproxy.Fault { return faults.Load().next(r) })
	scheduler := mortalScheduler(t, plane, "--kubeconfig="+kubeconfig)
	_, err = plane.StartController("--leader-elect=false")
	must(t, err)
	classesOn(t, plane)

	const size, wanted, perRack = 6, 3, 8
	// begin takes all nodes but so many of the first racks, and tears a gang.
	begin := func(s *scene, free ...int) []step {
		taken := nodes
		for _, n := range free {
			taken -= n
		}
		racks := make([]string, 0, taken)
		for r := range nodes / perRack {
			n := perRack
			if r < len(free) {
				n -= free[r]
			}
			for range n {
				racks = append(racks, fmt.Sprintf("r%d", r+1))
			}
		}
		faults.Store(&bindingFaults{
			namespace: s.namespace, gang: "train", pods: 1, times: math.MaxInt, failed: map[string]int{},
			fault: faultproxy.Refused(http.StatusInternalServerError, metav1.StatusReasonInternalError),
		})
		return []step{
			{
				name: "important pods leave a little room",
				do: func(ctx context.Context) error {
					return s.createElastic(ctx, "filler", 1, taken, nil, func(i int, pod *corev1.Pod) {
						pod.Spec.PriorityClassName = "high"
						inRack(&racks[i])(i, pod)
					})
				},
				check: s.bound("filler", taken),
			},
			{
				name:  "one binding of a gang fails",
				do:    s.create(annotated(ofClass("", job("train", workers(size, 8))), tuttiapi.RequiredTopologyAnnotation, "rack")),
				check: s.partly("train", size-1, 1),
			},
		}
	}
	well := func(context.Context) error {
		faults.Store(&bindingFaults{})
		return nil
	}
	urgent := func(s *scene) func(context.Context) error {
		return s.create(annotated(ofClass("high", job("urgent", workers(wanted, 8))), tuttiapi.RequiredTopologyAnnotation, "rack"))
	}
	nobodyWent := func(t *testing.T, s *scene) {
		t.Helper()
		for _, gang := range []string{"train", "urgent", "filler"} {
			if n := s.evicted(gang); n != 0 {
				t.Errorf("%d pods of %s were evicted", n, gang)
			}
		}
	}

	t.Run("a more important gang leaves the room", func(t *testing.T) {
		s := newScene(t, plane)
		s.run(append(begin(s, perRack, wanted+1),
			step{name: "it would fit nearer with the room of the rest", do: urgent(s), check: all(s.partly("train", size-1, 1), s.bound("urgent", wanted))},
			step{name: "the API server is well again", do: well, check: all(s.bound("train", size), s.bound("urgent", wanted))},
		))
		nobodyWent(t, s)
	})
	t.Run("also for the next scheduler", func(t *testing.T) {
		s := newScene(t, plane)
		s.run(append(begin(s, perRack, wanted+1), step{
			name: "the scheduler dies",
			do: func(ctx context.Context) error {
				scheduler.process.Kill()
				if err := well(ctx); err != nil {
					return err
				}
				if err := urgent(s)(ctx); err != nil {
					return err
				}
				return scheduler.start()
			},
			check: all(s.bound("train", size), s.bound("urgent", wanted)),
		}))
		nobodyWent(t, s)
	})
	t.Run("the room is taken by a single pod", func(t *testing.T) {
		s := newScene(t, plane)
		s.run(append(begin(s, size),
			step{name: "it takes it", do: func(ctx context.Context) error { return s.createPod(ctx, single("single", "high", 8)) },
				check: all(s.placed("single"), s.refused("train", size))},
			step{name: "it stays so", do: well, check: stays(all(s.placed("single"), s.refused("train", size)))},
			step{
				name:  "the single pod ends",
				do:    func(ctx context.Context) error { return s.deletePods(ctx, "single") },
				check: s.bound("train", size),
			},
		))
		if n := s.evicted("train"); n != size-1 {
			t.Errorf("%d pods of the gang were evicted, want %d, each once", n, size-1)
		}
	})
}
