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

// TestPlaceOfALostMemberIsItsGangs is case 51: single pods and a gang of equal
// priority that have waited for longer do not get the slot that a lost member leaves
// before its replacement comes, nor when its node comes back after a drain.
func TestPlaceOfALostMemberIsItsGangs(t *testing.T) {
	s := newScene(t, shared)
	const size, singles, losses = 2, 3, 8
	lost := "train-worker-1"
	gang := job("train", workers(size, 8))
	gang.Spec.TFReplicaSpecs[kubeflowv1.TFJobReplicaTypeWorker].RestartPolicy = kubeflowv1.RestartPolicyExitCode
	running := func(ctx context.Context) (int, error) {
		n := 0
		for i := range singles {
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
