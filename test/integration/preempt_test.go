// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	tuttiapi "github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/test/controlplane"
)

// classes are the priorities of these tests.
func classes(t *testing.T) {
	t.Helper()
	classesOn(t, shared)
}

func classesOn(t *testing.T, plane *controlplane.ControlPlane) {
	t.Helper()
	for _, class := range []*schedulingv1.PriorityClass{
		{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000},
		{ObjectMeta: metav1.ObjectMeta{Name: "polite"}, Value: 1000, PreemptionPolicy: new(corev1.PreemptNever)},
	} {
		if _, err := plane.Client.SchedulingV1().PriorityClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
}

func ofClass(class string, j *kubeflowv1.TFJob) *kubeflowv1.TFJob {
	for _, r := range j.Spec.TFReplicaSpecs {
		r.Template.Spec.PriorityClassName = class
		r.RestartPolicy = kubeflowv1.RestartPolicyExitCode // a job of policy Never fails when a pod is evicted
	}
	return annotated(j, tuttiapi.ServicesAnnotation, tuttiapi.ServicesPerJob)
}

// atOnce lets the job's pods go without a grace period, and so without KWOK. That
// deletes by name and sometimes twice: under load its second request comes when the
// pod has been made anew, and takes that one.
func atOnce(j *kubeflowv1.TFJob) *kubeflowv1.TFJob {
	for _, r := range j.Spec.TFReplicaSpecs {
		r.Template.Spec.TerminationGracePeriodSeconds = new(int64)
	}
	return j
}

func single(name, class string, gpus int64) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: podSpec(tuttiapi.SchedulerName, gpus)}
	pod.Spec.PriorityClassName = class
	return pod
}

// evicted is how many pods of the gang have lost their nodes so far.
func (s *scene) evicted(gang string) int {
	n := 0
	for _, l := range s.members(gang) {
		if !l.gone.IsZero() && !l.bound.IsZero() {
			n++
		}
	}
	return n
}

func (s *scene) create(jobs ...*kubeflowv1.TFJob) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, j := range jobs {
			if err := s.createJob(ctx, j); err != nil {
				return err
			}
		}
		return nil
	}
}

// TestGangEvictsAnotherWhole is cases 21, 23 and 27: free room and that of the
// victim are planned together, nobody goes without the start it was for, and the
// victim comes back.
func TestGangEvictsAnotherWhole(t *testing.T) {
	classes(t)
	s := newScene(t, shared)
	s.run([]step{
		{name: "two of low priority, a quarter is free", do: s.create(ofClass("", job("small", workers(16, 8))), ofClass("", job("large", workers(32, 8)))),
			check: all(s.bound("small", 16), s.bound("large", 32))},
		{name: "one of high priority", do: s.create(ofClass("high", job("urgent", workers(30, 8)))), check: s.bound("urgent", 30)},
		{name: "the cheaper victim waits whole", check: s.refused("small", 16)},
		{name: "the verdict named it", check: s.event("urgent", tuttiapi.PreemptingReason, "gang "+s.namespace+"/small (16 pods)", "priority 0")},
		{name: "urgent ends", do: func(ctx context.Context) error { return s.deleteJob(ctx, "urgent") }, check: s.bound("small", 16)},
	})
	if n := s.evicted("small"); n != 16 {
		t.Errorf("%d pods of small were evicted, want 16", n)
	}
	if n := s.evicted("large"); n != 0 {
		t.Errorf("%d pods of large were evicted, want none", n)
	}
	s.expectWhole(t, "urgent", 30)
}

// TestOnlyWhatHelpsIsEvicted is case 25: what would be freed lies apart.
func TestOnlyWhatHelpsIsEvicted(t *testing.T) {
	classes(t)
	s := newScene(t, shared)
	s.run([]step{
		// One after the other: had the low one come first, the important one might have had to evict it.
		{name: "three quarters of each node are important", do: s.create(ofClass("high", job("important", workers(64, 6)))), check: s.bound("important", 64)},
		{name: "the rest is low", do: s.create(ofClass("", job("low", workers(64, 2)))), check: all(s.bound("important", 64), s.bound("low", 64))},
		{name: "a whole node is nowhere to be had", do: s.create(ofClass("high", job("wide", workers(1, 8)))), check: s.refused("wide", 1)},
		{name: "an equal one is not evicted", do: s.create(ofClass("high", job("equal", workers(1, 6)))), check: s.refused("equal", 1)},
		{name: "one that never preempts", do: s.create(ofClass("polite", job("polite", workers(1, 2)))), check: s.refused("polite", 1)},
	})
	if n := s.evicted("low") + s.evicted("important"); n != 0 {
		t.Errorf("%d pods were evicted for nothing", n)
	}
}

// TestSparesGoFirst is case 24: eleven pods of which one is needed give one.
func TestSparesGoFirst(t *testing.T) {
	classes(t)
	s := newScene(t, shared)
	const pods = 64
	s.run([]step{
		{
			name: "a gang of one and 63 more",
			do: func(ctx context.Context) error {
				if err := s.createPodGroup(ctx, "elastic", 1); err != nil {
					return err
				}
				for i := range pods {
					if err := s.createPod(ctx, member(fmt.Sprintf("e%d", i), "elastic", 8)); err != nil {
						return err
					}
				}
				return nil
			},
			check: s.bound("elastic", pods),
		},
		{name: "a gang of two", do: s.create(ofClass("high", job("urgent", workers(2, 8)))), check: s.bound("urgent", 2)},
		{name: "a single pod", do: func(ctx context.Context) error { return s.createPod(ctx, single("one", "high", 8)) }, check: s.placed("one")},
	})
	if n := s.evicted("elastic"); n != 3 {
		t.Errorf("%d pods were evicted, want 3", n)
	}
}

// TestSinglePodEvictsAGangWhole: no member is torn out of a gang, and the
// cheapest gang goes.
func TestSinglePodEvictsAGangWhole(t *testing.T) {
	classes(t)
	s := newScene(t, shared)
	s.run([]step{
		{name: "a large and a small gang fill the cluster", do: s.create(ofClass("", job("large", workers(61, 8))), ofClass("", job("small", workers(3, 8)))),
			check: all(s.bound("large", 61), s.bound("small", 3))},
		{name: "an important pod", do: func(ctx context.Context) error { return s.createPod(ctx, single("one", "high", 8)) }, check: s.placed("one")},
		{name: "the small gang waits", check: s.refused("small", 3)},
	})
	if n := s.evicted("large"); n != 0 {
		t.Errorf("%d pods of the large gang were evicted, want none", n)
	}
	if n := s.evicted("small"); n != 3 {
		t.Errorf("%d pods of the small gang were evicted, want 3", n)
	}
}

// TestBudgetsAreBrokenLastAndNotSilently: the larger gang goes where the smaller
// one's budget allows no disruption; with no other way the verdict says so.
func TestBudgetsAreBrokenLastAndNotSilently(t *testing.T) {
	classes(t)
	s := newScene(t, shared)
	s.run([]step{
		{
			name: "a small gang behind a budget, a large one without",
			do: func(ctx context.Context) error {
				_, err := s.plane.Client.PolicyV1().PodDisruptionBudgets(s.namespace).Create(ctx, &policyv1.PodDisruptionBudget{
					ObjectMeta: metav1.ObjectMeta{Name: "guard"},
					Spec: policyv1.PodDisruptionBudgetSpec{
						MaxUnavailable: new(intstr.FromInt32(0)),
						Selector:       &metav1.LabelSelector{MatchLabels: map[string]string{kubeflowv1.JobNameLabel: "small"}},
					},
				}, metav1.CreateOptions{})
				if err != nil {
					return err
				}
				return s.create(ofClass("", job("large", workers(60, 8))), ofClass("", job("small", workers(4, 8))))(ctx)
			},
			check: all(s.bound("large", 60), s.bound("small", 4)),
		},
		{name: "four important ones", do: s.create(ofClass("high", job("first", workers(4, 8)))), check: all(s.bound("first", 4), s.bound("small", 4))},
		{name: "sixty more", do: s.create(ofClass("high", job("second", workers(60, 8)))), check: s.bound("second", 60)},
		{name: "was said", check: s.event("second", tuttiapi.PreemptingReason, "disruption budget "+s.namespace+"/guard")},
	})
	if n := s.evicted("large"); n != 60 {
		t.Errorf("%d pods of large were evicted, want 60", n)
	}
}
