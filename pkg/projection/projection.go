// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package projection lets the pod-group engine of kube-scheduler work on
// clusters that know nothing of it: it turns what is there, PodGroup objects
// of the scheduling.x-k8s.io CRD and the pod-group label on pods, into the
// native types that the engine reads. The verdicts on groups go the other way.
//
//	CRD PodGroup informer ─┐
//	pod informer ──────────┼─> Projector ─> store ─> native PodGroup informer ─> engine
//	succeeded members ─────┘                                                      │
//	CRD PodGroup status <─────────────── StatusWriter <─────────────── verdicts ──┘
//
// All of it lives inside the scheduler's process; nothing native is ever
// written to the API server. The package knows nothing of placement.
package projection

import (
	"slices"
	"strings"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
)

// group is all that is known under one namespace/name. Pods may be seen before
// their PodGroup and outlive it.
type group struct {
	object *v1alpha1.PodGroup
	// live holds the members that are neither succeeded nor failed.
	live map[types.UID]member
	// succeeded members, by when they were created, left the pod informer;
	// they still count towards minMember, or a job that loses a pod after
	// another one has finished could never complete its gang again. Those that
	// are older than the object were members of an earlier one of its name.
	succeeded map[types.UID]metav1.Time
}

type member struct {
	name     string
	priority int32
}

func newGroup() *group {
	return &group{live: map[types.UID]member{}, succeeded: map[types.UID]metav1.Time{}}
}

func (g *group) empty() bool {
	return g.object == nil && len(g.live) == 0 && len(g.succeeded) == 0
}

// nativeFrom projects a group, or returns nil while there is nothing to
// schedule: no object, or no live member. The engine demands that the group's
// priority be its members'; of a mixed group it is that of the first by name,
// and the gate keeps such a group out.
func nativeFrom(g *group) *schedulingv1beta1.PodGroup {
	if g.object == nil || len(g.live) == 0 {
		return nil
	}
	members := make([]member, 0, len(g.live))
	for _, m := range g.live {
		members = append(members, m)
	}
	first := slices.MinFunc(members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	minCount := g.object.Spec.MinMember
	for _, created := range g.succeeded {
		if !created.Before(&g.object.CreationTimestamp) {
			minCount--
		}
	}
	minCount = max(1, minCount)
	return &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{
			Name:              g.object.Name,
			Namespace:         g.object.Namespace,
			UID:               g.object.UID,
			Generation:        g.object.Generation,
			CreationTimestamp: g.object.CreationTimestamp,
			Labels:            g.object.Labels,
			Annotations:       g.object.Annotations,
			OwnerReferences:   g.object.OwnerReferences,
		},
		Spec: schedulingv1beta1.PodGroupSpec{
			SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
				Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: minCount},
			},
			DisruptionMode: &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}},
			Priority:       new(first.priority),
		},
	}
}
