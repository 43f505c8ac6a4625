// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	tuttiapi "github.com/tutti-project/tutti/pkg/apis/tutti"
)

// singlesOnNodes is how many of the pods single-0, single-1 and so on have nodes.
func (s *scene) singlesOnNodes(ctx context.Context, pods int) (int, error) {
	n := 0
	for i := range pods {
		pod, err := s.plane.Client.CoreV1().Pods(s.namespace).Get(ctx, fmt.Sprintf("single-%d", i), metav1.GetOptions{})
		if err != nil {
			return 0, err
		}
		if pod.Spec.NodeName != "" {
			n++
		}
	}
	return n, nil
}

// TestPlaceOfALostMemberIsItsGangs is case 51: single pods and a gang of equal
// priority that have waited for longer do not get the slot that a lost member leaves
// before its replacement comes, nor when its node comes back after a drain.
func TestPlaceOfALostMemberIsItsGangs(t *testing.T) {
	s := newScene(t, shared)
	const size, singles, losses = 2, 3, 8
	lost := "train-worker-1"
	gang := job("train", workers(size, 8))
	gang.Spec.TFReplicaSpecs[kubeflowv1.TFJobReplicaTypeWorker].RestartPolicy = kubeflowv1.RestartPolicyExitCode
	running := func(ctx context.Context) (int, error) { return s.singlesOnNodes(ctx, singles) }
	nobodyElse := all(s.refused("rival", 1), func(ctx context.Context) error {
		n, err := running(ctx)
		if err == nil && n > 0 {
			err = fmt.Errorf("%d single pods have nodes", n)
		}
		return err
	})
	var node string
	steps := []step{
		{name: "a gang of two nodes", do: s.create(gang), check: s.bound("train", size)},
		s.fill(size),
		{name: "others wait", do: func(ctx context.Context) error {
			for i := range singles {
				if err := s.createPod(ctx, single(fmt.Sprintf("single-%d", i), "", 8)); err != nil {
					return err
				}
			}
			return s.createJob(ctx, job("rival", workers(1, 8)))
		}, check: nobodyElse},
	}
	for range losses {
		var before metav1.ObjectMeta
		steps = append(steps, step{
			name: "a member is deleted",
			do: func(ctx context.Context) error {
				pod, err := s.plane.Client.CoreV1().Pods(s.namespace).Get(ctx, lost, metav1.GetOptions{})
				if err != nil {
					return err
				}
				before = pod.ObjectMeta
				return s.plane.Client.CoreV1().Pods(s.namespace).Delete(ctx, lost, metav1.DeleteOptions{})
			},
			check: all(func(ctx context.Context) error {
				pod, err := s.plane.Client.CoreV1().Pods(s.namespace).Get(ctx, lost, metav1.GetOptions{})
				if err == nil && pod.UID == before.UID {
					err = fmt.Errorf("%s is there still", lost)
				}
				return err
			}, s.bound("train", size), nobodyElse),
		})
	}
	s.run(append(steps,
		step{
			name: "its node is drained",
			do: func(ctx context.Context) error {
				pod, err := s.plane.Client.CoreV1().Pods(s.namespace).Get(ctx, lost, metav1.GetOptions{})
				if err != nil {
					return err
				}
				node = pod.Spec.NodeName
				return s.drain(ctx, node)
			},
			check: all(s.partly("train", size-1, 1), s.condition("train", metav1.ConditionFalse, tuttiapi.UnschedulableReason), nobodyElse),
		},
		step{
			name:  "and comes back",
			do:    func(ctx context.Context) error { return s.cordon(ctx, node, false) },
			check: all(s.bound("train", size), nobodyElse),
		},
		step{
			name: "the gang ends, and the others get its nodes",
			do:   func(ctx context.Context) error { return s.deleteJob(ctx, "train") },
			check: func(ctx context.Context) error {
				n, err := running(ctx)
				if s.bound("rival", 1)(ctx) == nil {
					n++
				}
				if err == nil && n != size {
					err = fmt.Errorf("%d of the others run, want %d", n, size)
				}
				return err
			},
		},
	))
}

// TestGangMovesWholeWhenALostMemberHasNoRoom is case 52: the rack that the gang needs
// has no spare for a lost member. After its time, all of the gang goes to a rack that
// takes it whole; never if it says so, nor before there is such a rack.
func TestGangMovesWholeWhenALostMemberHasNoRoom(t *testing.T) {
	for name, tc := range map[string]struct {
		after string
		words []string
		moves bool
	}{
		"after three seconds": {"3", []string{"3 of the gang's pods run", "after 3s"}, true},
		"never":               {"0", []string{"3 of the gang's pods run", tuttiapi.MoveAfterAnnotation + " is 0"}, false},
		"not for a while":     {"", []string{"3 of the gang's pods run", "after 5m0s"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, shared)
			const size = 4
			lost := "train-worker-1"
			gang := annotated(atOnce(ofClass("", job("train", workers(size, 8)))), tuttiapi.RequiredTopologyAnnotation, "rack")
			if tc.after != "" {
				gang = annotated(gang, tuttiapi.MoveAfterAnnotation, tc.after)
			}
			var rack, node string
			steps := []step{
				{name: "a gang of half a rack", do: s.create(gang), check: s.bound("train", size)},
				s.fillRack("train", "near", 4, &rack),
				{
					name:  "and so are all others",
					do:    func(ctx context.Context) error { return s.createElastic(ctx, "far", 1, nodes-8, nil, nil) },
					check: s.bound("far", nodes-8),
				},
				{
					name: "a node is drained",
					do: func(ctx context.Context) error {
						before, _, err := s.where(ctx, "train")
						if err != nil {
							return err
						}
						node = before[lost]
						return s.drain(ctx, node)
					},
					check: all(s.partly("train", size-1, 1), s.condition("train", metav1.ConditionFalse, tuttiapi.UnschedulableReason, tc.words...)),
				},
				{name: "nobody moves to where there is no room", check: stays(stays(s.partly("train", size-1, 1)))},
				{name: "the other racks are free", do: func(ctx context.Context) error {
					for i := range nodes - 8 {
						if err := s.plane.Client.CoreV1().Pods(s.namespace).Delete(ctx, fmt.Sprintf("far-%d", i), metav1.DeleteOptions{}); err != nil {
							return err
						}
					}
					return nil
				}, check: s.bound("far", 0)},
			}
			if tc.moves {
				steps = append(steps, step{name: "the gang moves", check: all(s.bound("train", size), s.racks("train", 1), func(ctx context.Context) error {
					racks, err := s.plane.Racks(ctx, s.namespace, "train")
					if err == nil && racks[0] == rack {
						err = fmt.Errorf("it is in rack %s still", rack)
					}
					return err
				})}, step{name: "it was told why", check: s.event("train", "FailedScheduling", "has run in part for 3s", "placed anew, whole")})
			} else {
				steps = append(steps, step{name: "the gang stays", check: stays(stays(s.partly("train", size-1, 1)))})
			}
			s.run(append(steps, step{name: "the node is back", do: func(ctx context.Context) error { return s.cordon(ctx, node, false) }, check: s.bound("train", size)}))
			if n, want := s.evicted("train"), map[bool]int{true: size, false: 1}[tc.moves]; n != want {
				t.Errorf("%d pods of the gang have lost their nodes, want %d", n, want)
			}
		})
	}
}
