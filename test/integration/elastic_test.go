// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	tuttiapi "github.com/tutti-project/tutti/pkg/apis/tutti"
)

// nodes is how many the small cluster has, each with 8 GPUs.
const nodes = 64

// createElastic makes a PodGroup with annotations and so many members of whole
// nodes, each shaped by the function if there is one.
func (s *scene) createElastic(ctx context.Context, name string, minMember, pods int, annotations map[string]string, shape func(i int, pod *corev1.Pod)) error {
	group := &v1alpha1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Spec:       v1alpha1.PodGroupSpec{MinMember: int32(minMember)},
	}
	if _, err := s.podGroups.SchedulingV1alpha1().PodGroups(s.namespace).Create(ctx, group, metav1.CreateOptions{}); err != nil {
		return err
	}
	return s.addMembers(ctx, name, 0, pods, shape)
}

func (s *scene) addMembers(ctx context.Context, gang string, from, to int, shape func(i int, pod *corev1.Pod)) error {
	for i := from; i < to; i++ {
		pod := member(fmt.Sprintf("%s-%d", gang, i), gang, 8)
		if shape != nil {
			shape(i, pod)
		}
		if err := s.createPod(ctx, pod); err != nil {
			return err
		}
	}
	return nil
}

// fill takes all nodes but so many, with pods that are needed one by one.
func (s *scene) fill(free int) step {
	return step{
		name:  fmt.Sprintf("%d nodes are left", free),
		do:    func(ctx context.Context) error { return s.createElastic(ctx, "filler", 1, nodes-free, nil, nil) },
		check: s.bound("filler", nodes-free),
	}
}

// release gives so many nodes back.
func (s *scene) release(ctx context.Context, from, to int) error {
	for i := from; i < to; i++ {
		if err := s.plane.Client.CoreV1().Pods(s.namespace).Delete(ctx, fmt.Sprintf("filler-%d", i), metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// partly is true when just so many pods of the gang have nodes and so many wait.
func (s *scene) partly(gang string, bound, waiting int) func(context.Context) error {
	return func(ctx context.Context) error {
		pods, err := s.plane.Pods(ctx, s.namespace, gang)
		if err != nil {
			return err
		}
		n := 0
		for _, pod := range pods {
			if pod.Spec.NodeName != "" {
				n++
			}
		}
		if n != bound || len(pods)-n != waiting {
			return fmt.Errorf("%d pods of %s have nodes and %d wait, want %d and %d", n, gang, len(pods)-n, bound, waiting)
		}
		return nil
	}
}

func (s *scene) setMinMember(gang string, n int) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := s.podGroups.SchedulingV1alpha1().PodGroups(s.namespace).Patch(ctx, gang, types.MergePatchType,
			fmt.Appendf(nil, `{"spec":{"minMember":%d}}`, n), metav1.PatchOptions{})
		return err
	}
}

// stays waits a moment and checks that nothing has changed.
func stays(check func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		wait, cancel := context.WithTimeout(ctx, atRest)
		defer cancel()
		<-wait.Done()
		return check(ctx)
	}
}

// TestElasticGangStartsWithItsMinimumAndGrows: extras join one by one as room
// comes, and neither wait for each other nor change what runs.
func TestElasticGangStartsWithItsMinimumAndGrows(t *testing.T) {
	s := newScene(t, shared)
	s.run([]step{
		s.fill(3),
		{name: "four are needed", do: func(ctx context.Context) error { return s.createElastic(ctx, "gang", 4, 8, nil, nil) }, check: s.refused("gang", 8)},
		{name: "room for five", do: func(ctx context.Context) error { return s.release(ctx, 0, 2) }, check: s.partly("gang", 5, 3)},
		{name: "the verdict counts them", check: s.condition("gang", metav1.ConditionTrue, tuttiapi.GangPlacedReason, "5 of 8 pods")},
		{name: "for one more", do: func(ctx context.Context) error { return s.release(ctx, 2, 3) }, check: s.partly("gang", 6, 2)},
		{name: "counted too", check: s.condition("gang", metav1.ConditionTrue, tuttiapi.GangPlacedReason, "1 more, now 6 of 8 pods")},
		{name: "for the rest", do: func(ctx context.Context) error { return s.release(ctx, 3, 6) }, check: s.bound("gang", 8)},
		{name: "one that comes later", do: func(ctx context.Context) error { return s.addMembers(ctx, "gang", 8, 9, nil) }, check: s.bound("gang", 9)},
	})
	s.expectWhole(t, "gang", 4)
	s.expectWhole(t, "filler", 1)
}

// TestMinimumsAreMetRoleByRole: a gang that has its number of pods does not
// start without those that its roles need.
func TestMinimumsAreMetRoleByRole(t *testing.T) {
	s := newScene(t, shared)
	roles := map[string]string{tuttiapi.RoleMinimumsAnnotation: "ps=1,worker=4"}
	worker := func(_ int, pod *corev1.Pod) { pod.Labels[kubeflowv1.ReplicaTypeLabel] = "worker" }
	s.run([]step{
		s.fill(4),
		{
			name: "workers alone", do: func(ctx context.Context) error { return s.createElastic(ctx, "gang", 5, 6, roles, worker) },
			check: s.refused("gang", 6, "0 of the minimum of 1 pods of role ps exist"),
		},
		{
			name: "a parameter server comes, for which there is a node, but then not for four workers",
			do: func(ctx context.Context) error {
				return s.addMembers(ctx, "gang", 6, 7, func(_ int, pod *corev1.Pod) { pod.Labels[kubeflowv1.ReplicaTypeLabel] = "ps" })
			},
			check: s.refused("gang", 7, "worker"),
		},
		{name: "a node more", do: func(ctx context.Context) error { return s.release(ctx, 0, 1) }, check: s.partly("gang", 5, 2)},
		{name: "the server among them", check: s.placed("gang-6")},
	})
	s.expectWhole(t, "gang", 5)
}

// TestMinimumIsMetByPodsOfAnyShape: four of eight workers are needed, and only
// the four that ask for less find room.
func TestMinimumIsMetByPodsOfAnyShape(t *testing.T) {
	s := newScene(t, shared)
	small := map[string]bool{}
	s.run([]step{
		s.fill(2),
		{
			name: "workers of two shapes",
			do: func(ctx context.Context) error {
				return s.createElastic(ctx, "gang", 4, 8, map[string]string{tuttiapi.RoleMinimumsAnnotation: "worker=4"}, func(i int, pod *corev1.Pod) {
					pod.Labels[kubeflowv1.ReplicaTypeLabel] = "worker"
					if i%2 == 1 {
						small[pod.Name] = true
						pod.Spec.Containers[0].Resources = podSpec("", 4).Containers[0].Resources
					}
				})
			},
			check: s.partly("gang", 4, 4),
		},
	})
	for _, l := range s.members("gang") {
		if bound := !l.bound.IsZero(); bound != small[l.name] {
			t.Errorf("pod %s bound: %t", l.name, bound)
		}
	}
	s.expectWhole(t, "gang", 4)
}

// TestExtrasEvictNobody: an important gang has its minimum; its other pods wait
// beside pods of low priority.
func TestExtrasEvictNobody(t *testing.T) {
	classes(t)
	s := newScene(t, shared)
	s.run([]step{
		s.fill(4),
		{
			name: "two are needed",
			do: func(ctx context.Context) error {
				return s.createElastic(ctx, "gang", 2, 6, nil, func(_ int, pod *corev1.Pod) { pod.Spec.PriorityClassName = "high" })
			},
			check: s.partly("gang", 4, 2),
		},
		{name: "and that is all", check: stays(s.partly("gang", 4, 2))},
	})
	if n := s.evicted("filler"); n > 0 {
		t.Errorf("%d pods were evicted for pods beyond a minimum", n)
	}
}

// TestHeldExtrasHoldNobody: pods with scheduling gates count when the gates are
// gone, and the others start if they are enough.
func TestHeldExtrasHoldNobody(t *testing.T) {
	s := newScene(t, shared)
	open := func(names ...string) func(context.Context) error {
		return func(ctx context.Context) (err error) {
			for _, name := range names {
				_, e := s.plane.Client.CoreV1().Pods(s.namespace).Patch(ctx, name, types.JSONPatchType,
					[]byte(`[{"op":"remove","path":"/spec/schedulingGates"}]`), metav1.PatchOptions{})
				err = errors.Join(err, e)
			}
			return err
		}
	}
	s.run([]step{
		{
			name: "four of six are needed, and three are held",
			do: func(ctx context.Context) error {
				return s.createElastic(ctx, "gang", 4, 6, nil, func(i int, pod *corev1.Pod) {
					if i < 3 {
						pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/quota"}}
					}
				})
			},
			check: all(s.partly("gang", 0, 6),
				s.condition("gang", metav1.ConditionFalse, tuttiapi.IncompleteReason, "3 pods can start", "minimum is 4", "3 have scheduling gates")),
		},
		{name: "a gate is opened", do: open("gang-1"), check: s.partly("gang", 4, 2)},
		{name: "the others", do: open("gang-0", "gang-2"), check: s.bound("gang", 6)},
		{
			name: "all are held",
			do: func(ctx context.Context) error {
				return s.createElastic(ctx, "held", 2, 2, nil, func(_ int, pod *corev1.Pod) {
					pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/quota"}}
				})
			},
			check: s.condition("held", metav1.ConditionFalse, tuttiapi.IncompleteReason, "2 have scheduling gates"),
		},
		{name: "both gates are opened", do: open("held-0", "held-1"), check: s.bound("held", 2)},
	})
	s.expectWhole(t, "gang", 4)
	s.expectWhole(t, "held", 2)
}

// TestMinMemberFollowsItsEdits, up and down, while the gang waits and while it runs.
func TestMinMemberFollowsItsEdits(t *testing.T) {
	s := newScene(t, shared)
	s.run([]step{
		s.fill(3),
		{name: "five are needed", do: func(ctx context.Context) error { return s.createElastic(ctx, "gang", 5, 6, nil, nil) }, check: s.refused("gang", 6)},
		{name: "six", do: s.setMinMember("gang", 6), check: s.refused("gang", 6, "6")},
		{name: "room for five", do: func(ctx context.Context) error { return s.release(ctx, 0, 2) }, check: stays(s.refused("gang", 6))},
		{name: "three", do: s.setMinMember("gang", 3), check: s.partly("gang", 5, 1)},
		{name: "all of them, while it runs", do: s.setMinMember("gang", 6),
			check: all(s.partly("gang", 5, 1), s.condition("gang", metav1.ConditionFalse, tuttiapi.UnschedulableReason))},
		{name: "room for the last", do: func(ctx context.Context) error { return s.release(ctx, 2, 3) }, check: s.bound("gang", 6)},
		{name: "more than there are", do: s.setMinMember("gang", 8), check: stays(s.bound("gang", 6))},
		{name: "two more", do: func(ctx context.Context) error { return s.addMembers(ctx, "gang", 6, 8, nil) },
			check: all(s.partly("gang", 6, 2), s.condition("gang", metav1.ConditionFalse, tuttiapi.UnschedulableReason))},
		{name: "not needed after all", do: s.setMinMember("gang", 6),
			check: all(s.partly("gang", 6, 2), s.condition("gang", metav1.ConditionTrue, tuttiapi.GangPlacedReason))},
		{name: "room for them", do: func(ctx context.Context) error { return s.release(ctx, 3, 5) }, check: s.bound("gang", 8)},
	})
	if n := s.evicted("gang"); n > 0 {
		t.Errorf("%d pods of the gang were lost", n)
	}
	s.expectWhole(t, "filler", 1)
}
