// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	tuttiapi "github.com/tutti-project/tutti/pkg/apis/tutti"
)

func plain(name, scheduler string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: podSpec(scheduler, 1)}
}

func TestPlainPodsAreScheduledAndOthersPodsLeftAlone(t *testing.T) {
	s := newScene(t, shared)
	var before *corev1.Pod
	s.run([]step{
		{
			name: "a pod of the default scheduler, which does not run",
			do: func(ctx context.Context) (err error) {
				before, err = s.plane.Client.CoreV1().Pods(s.namespace).Create(ctx, plain("theirs", ""), metav1.CreateOptions{})
				return err
			},
		},
		{
			name:  "a pod of ours, without a group",
			do:    func(ctx context.Context) error { return s.createPod(ctx, plain("ours", tuttiapi.SchedulerName)) },
			check: s.placed("ours"),
		},
		{
			name: "theirs is as it was",
			check: func(ctx context.Context) error {
				after, err := s.plane.Client.CoreV1().Pods(s.namespace).Get(ctx, "theirs", metav1.GetOptions{})
				if err == nil && after.ResourceVersion != before.ResourceVersion {
					err = fmt.Errorf("pod theirs was written: %v", after)
				}
				return err
			},
		},
	})
}

// placed is true when the pod has a node.
func (s *scene) placed(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		pod, err := s.plane.Client.CoreV1().Pods(s.namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && pod.Spec.NodeName == "" {
			err = fmt.Errorf("pod %s has no node", name)
		}
		return err
	}
}

func TestGangMadeByHandIsScheduled(t *testing.T) {
	important := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "important"}, Value: 1000}
	cases := map[string]string{"without a priority": "", "with a priority class": important.Name}
	_, err := shared.Client.SchedulingV1().PriorityClasses().Create(t.Context(), important, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		err := shared.Client.SchedulingV1().PriorityClasses().Delete(context.WithoutCancel(t.Context()), important.Name, metav1.DeleteOptions{})
		if err != nil {
			t.Error(err)
		}
	})
	for name, priorityClass := range cases {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, shared)
			create := func(names ...string) func(context.Context) error {
				return func(ctx context.Context) error {
					for _, name := range names {
						pod := member(name, "hand", 8)
						pod.Spec.PriorityClassName = priorityClass
						if err := s.createPod(ctx, pod); err != nil {
							return err
						}
					}
					return nil
				}
			}
			s.run([]step{
				{
					name: "a group of three with two pods",
					do: func(ctx context.Context) error {
						if err := s.createPodGroup(ctx, "hand", 3); err != nil {
							return err
						}
						return create("p0", "p1")(ctx)
					},
				},
				{
					name:  "a single pod, scheduled after them",
					do:    func(ctx context.Context) error { return s.createPod(ctx, plain("later", tuttiapi.SchedulerName)) },
					check: s.placed("later"),
				},
				{
					name: "the two wait",
					check: func(ctx context.Context) error {
						if since, any := s.boundSince("hand"); any {
							return fmt.Errorf("bound at %s without the third", since)
						}
						return nil
					},
				},
				{name: "the third pod", do: create("p2"), check: s.bound("hand", 3)},
				{name: "in one rack", check: s.racks("hand", 1)},
				{name: "the verdict", check: s.condition("hand", metav1.ConditionTrue, tuttiapi.GangPlacedReason)},
			})
			s.expectWhole(t, "hand", 3)
		})
	}
}
