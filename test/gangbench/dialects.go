// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/test/controlplane"
)

// dialect is how a scheduler is told of gangs.
type dialect struct {
	name  string // of the scheduler
	start func() (*controlplane.Process, error)
	shape func(p *v1.Pod, gang string, l load)
	group func(ctx context.Context, namespace, gang string, l load, high bool) error
}

// tutti: pods bear the pod-group label, and the CRD's PodGroup completes them.
func (s *stage) tutti() dialect {
	return dialect{
		name:  tutti.SchedulerName,
		start: func() (*controlplane.Process, error) { return s.plane.StartScheduler("--leader-elect=false", "--v=0") },
		shape: func(p *v1.Pod, gang string, _ load) {
			p.Spec.SchedulerName = tutti.SchedulerName
			p.Labels = map[string]string{v1alpha1.PodGroupLabel: gang}
		},
		group: func(ctx context.Context, namespace, gang string, l load, _ bool) error {
			group := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: gang}, Spec: v1alpha1.PodGroupSpec{MinMember: int32(l.pods)}}
			if l.rack {
				group.Annotations = map[string]string{tutti.RequiredTopologyAnnotation: "rack"}
			}
			_, err := s.groups.SchedulingV1alpha1().PodGroups(namespace).Create(ctx, group, metav1.CreateOptions{})
			return err
		},
	}
}

// upstream: pods name their scheduling group, and the native PodGroup completes
// them. Its client may send as much as Tutti's.
func (s *stage) upstream() dialect {
	return dialect{
		name: v1.DefaultSchedulerName,
		start: func() (*controlplane.Process, error) {
			return s.plane.StartKubeScheduler("--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true",
				"--kube-api-qps=1000", "--kube-api-burst=2000", "--v=0")
		},
		shape: func(p *v1.Pod, gang string, _ load) {
			p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &gang}
		},
		group: func(ctx context.Context, namespace, gang string, l load, high bool) error {
			group := &schedulingv1beta1.PodGroup{
				ObjectMeta: metav1.ObjectMeta{Name: gang},
				Spec: schedulingv1beta1.PodGroupSpec{
					SchedulingPolicy:  schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(l.pods)}},
					PriorityClassName: priorityOf(high),
				},
			}
			if l.evicting {
				group.Spec.DisruptionMode = &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}}
			}
			if l.rack {
				group.Spec.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{
					Topology: []schedulingv1beta1.TopologyConstraint{{Key: controlplane.RackLabel}},
				}
			}
			_, err := s.client.SchedulingV1beta1().PodGroups(namespace).Create(ctx, group, metav1.CreateOptions{})
			return err
		},
	}
}
