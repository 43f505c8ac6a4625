// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	tuttiapi "github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/test/controlplane"
)

// slowToStop makes a job's pods take their time to end.
func slowToStop(after string, j *kubeflowv1.TFJob) *kubeflowv1.TFJob {
	for _, r := range j.Spec.TFReplicaSpecs {
		metav1.SetMetaDataAnnotation(&r.Template.ObjectMeta, "demo.tutti.dev/stop-after", after)
	}
	return j
}

// nominated is true when so many pods of the gang have room kept for them.
func (s *scene) nominated(gang string, want int) func(context.Context) error {
	return func(ctx context.Context) error {
		pods, err := s.plane.Pods(ctx, s.namespace, gang)
		if err != nil {
			return err
		}
		n := 0
		for _, pod := range pods {
			if pod.Status.NominatedNodeName != "" {
				n++
			}
		}
		if n != want {
			return fmt.Errorf("room is kept for %d pods of %s, want %d", n, gang, want)
		}
		return nil
	}
}

// TestRoomOfVictimsThatTakeTheirTimeIsKept: while victims terminate nobody else
// is evicted, and neither their equals nor the preemptor's take the room.
func TestRoomOfVictimsThatTakeTheirTimeIsKept(t *testing.T) {
	classes(t)
	s := newScene(t, shared)
	s.run([]step{
		{
			name:  "two gangs of low priority fill the cluster",
			do:    s.create(slowToStop("5s", ofClass("", job("small", workers(4, 8)))), slowToStop("5s", ofClass("", job("large", workers(nodes-4, 8))))),
			check: all(s.bound("small", 4), s.bound("large", nodes-4)),
		},
		{
			name:  "an important one",
			do:    s.create(ofClass("high", job("urgent", workers(4, 8)))),
			check: all(s.condition("urgent", metav1.ConditionFalse, tuttiapi.PreemptingReason, "gang "+s.namespace+"/small (4 pods)"), s.nominated("urgent", 4)),
		},
		{
			name: "others come while the victims stop",
			do: func(ctx context.Context) error {
				return errors.Join(s.create(ofClass("polite", job("equal", workers(2, 8))), ofClass("", job("lower", workers(2, 8))))(ctx),
					s.createPod(ctx, single("alone", "polite", 8)))
			},
			check: all(s.bound("urgent", 4), s.refused("equal", 2), s.refused("lower", 2), s.refused("small", 4)),
		},
	})
	if n := s.evicted("large"); n != 0 {
		t.Errorf("%d pods of large were evicted, want none", n)
	}
	if n := s.evicted("small"); n != 4 {
		t.Errorf("%d pods of small were evicted, want 4", n)
	}
	s.expectWhole(t, "urgent", 4)
}

// TestVictimWithAFinalizerIsWaitedFor: its node is not free before it is gone.
func TestVictimWithAFinalizerIsWaitedFor(t *testing.T) {
	classes(t)
	s := newScene(t, shared)
	finalize := func(value string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := s.plane.Client.CoreV1().Pods(s.namespace).Patch(ctx, "guarded", types.MergePatchType,
				[]byte(`{"metadata":{"finalizers":`+value+`}}`), metav1.PatchOptions{})
			return err
		}
	}
	s.run([]step{
		{
			name: "important ones, and one node is left",
			do: func(ctx context.Context) error {
				return s.createElastic(ctx, "filler", 1, nodes-1, nil, func(_ int, pod *corev1.Pod) { pod.Spec.PriorityClassName = "high" })
			},
			check: s.bound("filler", nodes-1),
		},
		{
			name: "one of low priority with a finalizer",
			do: func(ctx context.Context) error {
				return errors.Join(s.createPod(ctx, single("guarded", "", 8)), finalize(`["example.com/guard"]`)(ctx))
			},
			check: s.placed("guarded"),
		},
		{name: "an important gang", do: s.create(ofClass("high", job("urgent", workers(1, 8)))), check: s.condition("urgent", metav1.ConditionFalse, tuttiapi.PreemptingReason, "guarded")},
		{name: "it waits, and evicts nobody else", check: stays(all(s.partly("urgent", 0, 1), s.bound("filler", nodes-1)))},
		{name: "the finalizer goes", do: finalize("[]"), check: s.bound("urgent", 1)},
	})
}

// TestKilledBetweenEvictionsItEvictsNobodyElse: the scheduler dies when some of
// its victims go; its successor finishes what it began, and no more.
func TestKilledBetweenEvictionsItEvictsNobodyElse(t *testing.T) {
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Dir: t.TempDir()})
	must(t, err)
	t.Cleanup(plane.Stop)
	must(t, plane.CreateNodes(t.Context(), controlplane.Small))
	scheduler := mortalScheduler(t, plane)
	_, err = plane.StartController("--leader-elect=false")
	must(t, err)
	classesOn(t, plane)
	for _, victims := range []int{1, 5, 20, 30} {
		t.Run(fmt.Sprintf("%d of 30 go", victims), func(t *testing.T) {
			s := newScene(t, plane)
			s.run([]step{
				{
					name:  "two of low priority fill the cluster",
					do:    s.create(slowToStop("2s", ofClass("", job("small", workers(30, 8)))), slowToStop("2s", ofClass("", job("large", workers(nodes-30, 8))))),
					check: all(s.bound("small", 30), s.bound("large", nodes-30)),
				},
				{
					name: "the scheduler dies at its evictions",
					do: func(ctx context.Context) error {
						dead := s.whenGone(victims, scheduler.process.Kill)
						if err := s.create(ofClass("high", job("urgent", workers(28, 8))))(ctx); err != nil {
							return err
						}
						return s.restart(ctx, scheduler, dead)
					},
					check: all(s.bound("urgent", 28), s.refused("small", 30)),
				},
				{name: "all go", do: func(ctx context.Context) error {
					return errors.Join(s.deleteJob(ctx, "urgent"), s.deleteJob(ctx, "small"), s.deleteJob(ctx, "large"))
				},
					check: s.gone("urgent", "small", "large")},
			})
			lost := s.evictedBefore("large", "urgent")
			if lost > 0 {
				t.Errorf("%d pods of large were evicted, want none", lost)
			}
			for _, move := range s.moved() {
				t.Error(move)
			}
		})
	}
}

// evictedBefore is how many pods of the gang had lost their nodes when the last
// pod of the other one was bound.
func (s *scene) evictedBefore(gang, other string) int {
	times := boundTimes(s.members(other))
	last := times[len(times)-1]
	return len(slices.DeleteFunc(s.members(gang), func(l life) bool { return l.bound.IsZero() || l.gone.IsZero() || l.gone.After(last) }))
}
