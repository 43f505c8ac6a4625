// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	tuttiapi "github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/test/controlplane"
)

// nativeAPI makes an API server serve its own PodGroups.
var nativeAPI = []string{
	"--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true",
	"--runtime-config=scheduling.k8s.io/v1beta1=true",
}

// TestNativePodGroups: where the API server has PodGroups of its own, they are
// gangs like those of the CRD, and both live side by side.
func TestNativePodGroups(t *testing.T) {
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Dir: t.TempDir(), APIServerArgs: nativeAPI})
	must(t, err)
	t.Cleanup(plane.Stop)
	must(t, plane.CreateNodes(t.Context(), controlplane.Small))
	_, err = plane.StartScheduler()
	must(t, err)
	s := newScene(t, plane)
	s.run([]step{
		{
			name: "a native group that asks for one rack in its spec, and one of the CRD",
			do: func(ctx context.Context) error {
				if err := s.createNative(ctx, nativeGroup("native", 8, controlplane.RackLabel)); err != nil {
					return err
				}
				if err := s.createPodGroup(ctx, "crd", 4); err != nil {
					return err
				}
				for i := range 8 {
					if err := s.createPod(ctx, nativeMember(fmt.Sprintf("native-%d", i), "native", 8)); err != nil {
						return err
					}
				}
				for i := range 4 {
					if err := s.createPod(ctx, member(fmt.Sprintf("crd-%d", i), "crd", 8)); err != nil {
						return err
					}
				}
				return nil
			},
			check: all(s.nativeBound("native", 8, 1), s.bound("crd", 4)),
		},
		{
			name: "its verdict is on the native object, in Tutti's words and in the API's",
			check: all(
				s.nativeCondition("native", tuttiapi.GangPlacedCondition, metav1.ConditionTrue, "placed 8 pods in"),
				s.nativeCondition("native", schedulingv1beta1.PodGroupInitiallyScheduled, metav1.ConditionTrue),
			),
		},
		{
			name: "a group that no rack holds waits whole, and its object has the event",
			do: func(ctx context.Context) error {
				group := nativeGroup("wide", 9, "")
				group.Annotations = map[string]string{tuttiapi.RequiredTopologyAnnotation: "rack"}
				if err := s.createNative(ctx, group); err != nil {
					return err
				}
				for i := range 9 {
					if err := s.createPod(ctx, nativeMember(fmt.Sprintf("wide-%d", i), "wide", 8)); err != nil {
						return err
					}
				}
				return nil
			},
			check: all(
				s.nativeBound("wide", 0, 0),
				s.nativeCondition("wide", tuttiapi.GangPlacedCondition, metav1.ConditionFalse, "of 9"),
				s.nativeCondition("wide", schedulingv1beta1.PodGroupInitiallyScheduled, metav1.ConditionFalse, "of 9"),
				s.event("wide", "FailedScheduling", "of 9"),
			),
		},
		{name: "kubectl tutti says of it what it says of the same gang of the CRD", do: s.kubectlOnNative},
		{
			name: "it starts when its minimum is lowered",
			do: func(ctx context.Context) error {
				_, err := s.plane.Client.SchedulingV1beta1().PodGroups(s.namespace).Patch(ctx, "wide", types.MergePatchType,
					[]byte(`{"spec":{"schedulingPolicy":{"gang":{"minCount":8}}}}`), metav1.PatchOptions{})
				return err
			},
			check: s.nativeBound("wide", 8, 1),
		},
		{
			name: "of two groups of one name the native one counts",
			do: func(ctx context.Context) error {
				if err := s.createPodGroup(ctx, "both", 5); err != nil {
					return err
				}
				if err := s.createNative(ctx, nativeGroup("both", 2, "")); err != nil {
					return err
				}
				for i := range 2 {
					if err := s.createPod(ctx, member(fmt.Sprintf("both-%d", i), "both", 1)); err != nil {
						return err
					}
				}
				return nil
			},
			check: all(s.bound("both", 2), s.nativeCondition("both", tuttiapi.GangPlacedCondition, metav1.ConditionTrue)),
		},
	})
}

// nativeGroup is a gang of the API server's own kind; level is the node label
// of the domain that it must be in, or nothing.
func nativeGroup(name string, minCount int32, level string) *schedulingv1beta1.PodGroup {
	group := &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
			Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: minCount},
		}},
	}
	if level != "" {
		group.Spec.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{
			Topology: []schedulingv1beta1.TopologyConstraint{{Key: level}},
		}
	}
	return group
}

// nativeMember is a pod that names its group in its spec alone.
func nativeMember(name, gang string, gpus int64) *corev1.Pod {
	spec := podSpec(tuttiapi.SchedulerName, gpus)
	spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &gang}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
}

func (s *scene) createNative(ctx context.Context, group *schedulingv1beta1.PodGroup) error {
	_, err := s.plane.Client.SchedulingV1beta1().PodGroups(s.namespace).Create(ctx, group, metav1.CreateOptions{})
	return err
}

// nativeBound is true when just so many of the gang's pods have nodes, in so
// many racks.
func (s *scene) nativeBound(gang string, want, racks int) func(context.Context) error {
	return func(ctx context.Context) error {
		pods, err := s.plane.Client.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		bound, in := 0, map[string]bool{}
		for _, pod := range pods.Items {
			if group := pod.Spec.SchedulingGroup; group == nil || *group.PodGroupName != gang || pod.Spec.NodeName == "" {
				continue
			}
			node, err := s.plane.Client.CoreV1().Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
			if err != nil {
				return err
			}
			bound++
			in[node.Labels[controlplane.RackLabel]] = true
		}
		if bound != want || len(in) != racks {
			return fmt.Errorf("%d pods of gang %s are bound in racks %v, want %d in %d", bound, gang, in, want, racks)
		}
		return nil
	}
}

// nativeCondition is true when the native PodGroup has the condition, and its
// message these words.
func (s *scene) nativeCondition(gang, kind string, status metav1.ConditionStatus, words ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		group, err := s.plane.Client.SchedulingV1beta1().PodGroups(s.namespace).Get(ctx, gang, metav1.GetOptions{})
		if err != nil {
			return err
		}
		condition := meta.FindStatusCondition(group.Status.Conditions, kind)
		if condition == nil || condition.Status != status {
			return fmt.Errorf("PodGroup %s has conditions %v, want %s=%s", gang, group.Status.Conditions, kind, status)
		}
		return contains(condition.Message, words)
	}
}
