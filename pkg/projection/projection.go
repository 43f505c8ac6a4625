// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package projection lets the pod-group engine of kube-scheduler work on
// clusters that know nothing of it: it turns what is there, PodGroup objects
// of the scheduling.x-k8s.io CRD and the pod-group label on pods, into the
// native types that the engine reads. The verdicts on groups go the other way.
// Where the API server has native PodGroups too, they are used beside those of
// the CRD.
//
//	CRD PodGroup informer ────┐
//	native PodGroup informer ─┤
//	pod informer ─────────────┼─> Projector ─> store ─> PodGroup informer ─> engine
//	finished members ─────────┘       │                                        │
//	                                tallies                                 verdicts
//	                                  └────────> StatusWriter <────────────────┘
//	PodGroup status <──────────────────────────────────┘
//
// All of it lives inside the scheduler's process; of a native group nothing but
// its conditions is ever written. The package knows nothing of placement.
package projection

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/tutti-project/tutti/pkg/apis/tutti"
)

// What a projected group was made from: its TypeMeta says so, since everything
// that names the group to people must name the object that they know.
var (
	crdType    = metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "PodGroup"}
	nativeType = metav1.TypeMeta{APIVersion: schedulingv1beta1.SchemeGroupVersion.String(), Kind: "PodGroup"}
)

// group is all that is known under one namespace/name. Pods may be seen before
// their PodGroup and outlive it.
type group struct {
	object *v1alpha1.PodGroup
	// native is the API server's own PodGroup; it beats the CRD's.
	native *schedulingv1beta1.PodGroup
	// live holds the members that are neither succeeded nor failed.
	live map[types.UID]member
	// held are members that the engine does not know yet (held.go).
	held map[types.UID]member
	// succeeded members, by when they were created, left the pod informer;
	// they still count towards minMember, or a job that loses a pod after
	// another one has finished could never complete its gang again. Those that
	// are older than the object were members of an earlier one of its name.
	succeeded map[types.UID]metav1.Time
	// failed members are only counted in the status.
	failed map[types.UID]metav1.Time
}

type member struct {
	name           string
	priority       int32
	bound, running bool
	owners         string
}

func newGroup() *group {
	return &group{live: map[types.UID]member{}, held: map[types.UID]member{}, succeeded: map[types.UID]metav1.Time{}, failed: map[types.UID]metav1.Time{}}
}

func (g *group) empty() bool {
	return g.object == nil && g.native == nil && len(g.live) == 0 && len(g.held) == 0 && len(g.succeeded) == 0 && len(g.failed) == 0
}

// first is the first live member by name, or the first that is held.
func (g *group) first() member {
	members := g.live
	if len(members) == 0 {
		members = g.held
	}
	var first member
	for _, m := range members {
		if first.name == "" || strings.Compare(m.name, first.name) < 0 {
			first = m
		}
	}
	return first
}

// since counts the finished members that are not older than the group.
func since(created metav1.Time, finished map[types.UID]metav1.Time) int32 {
	n := int32(0)
	for _, when := range finished {
		if !when.Before(&created) {
			n++
		}
	}
	return n
}

// nativeFrom projects a group, or returns nil while there is nothing to
// schedule: no object, or no live member.
func nativeFrom(g *group) *schedulingv1beta1.PodGroup {
	switch {
	case len(g.live) == 0 && len(g.held) == 0:
		return nil
	case g.native != nil:
		return copyOf(g)
	case g.object != nil:
		return translated(g)
	default:
		return nil
	}
}

// copyOf is the API server's own group as it is, but for the members that have
// succeeded: the engine does not count them.
func copyOf(g *group) *schedulingv1beta1.PodGroup {
	group := *g.native // shallow: nothing of an informer's object is ever changed
	group.TypeMeta = nativeType
	group.Annotations = annotationsOf(g.native.Annotations, len(g.held), nil)
	if gang := g.native.Spec.SchedulingPolicy.Gang; gang != nil {
		less := *gang
		less.MinCount = max(1, gang.MinCount-since(g.native.CreationTimestamp, g.succeeded))
		group.Spec.SchedulingPolicy.Gang = &less
	}
	return &group
}

// translated is a CRD's group. The engine demands that a group's priority be its
// members'; of a mixed group it is that of the first by name, and the gate keeps
// such a group out.
func translated(g *group) *schedulingv1beta1.PodGroup {
	return &schedulingv1beta1.PodGroup{
		TypeMeta: crdType,
		ObjectMeta: metav1.ObjectMeta{
			Name:              g.object.Name,
			Namespace:         g.object.Namespace,
			UID:               g.object.UID,
			Generation:        g.object.Generation,
			CreationTimestamp: g.object.CreationTimestamp,
			Labels:            g.object.Labels,
			Annotations:       annotationsOf(g.object.Annotations, len(g.held), g.object.Spec.ScheduleTimeoutSeconds),
			OwnerReferences:   g.object.OwnerReferences,
		},
		Spec: schedulingv1beta1.PodGroupSpec{
			SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
				Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: max(1, g.object.Spec.MinMember-since(g.object.CreationTimestamp, g.succeeded))},
			},
			DisruptionMode: &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}},
			Priority:       new(g.first().priority),
		},
	}
}

// annotationsOf are the object's, and what the native type has no field for: how
// many members are held, and how long the gang may wait.
func annotationsOf(annotations map[string]string, held int, timeout *int32) map[string]string {
	_, claimed := annotations[tutti.HeldPodsAnnotation]
	limited := timeout != nil && *timeout > 0
	if held == 0 && !claimed && !limited {
		return annotations
	}
	own := map[string]string{}
	maps.Copy(own, annotations)
	delete(own, tutti.HeldPodsAnnotation)
	if held > 0 {
		own[tutti.HeldPodsAnnotation] = strconv.Itoa(held)
	}
	if limited {
		own[tutti.ScheduleTimeoutAnnotation] = strconv.Itoa(int(*timeout))
	}
	return own
}

func memberFrom(pod *v1.Pod) member {
	m := member{
		name: pod.Name, bound: pod.Spec.NodeName != "", running: pod.Status.Phase == v1.PodRunning,
		owners: ownersOf(pod.Namespace, pod.OwnerReferences),
	}
	if pod.Spec.Priority != nil {
		m.priority = *pod.Spec.Priority
	}
	return m
}

// ownersOf names who made a pod, as scheduler-plugins does in occupiedBy.
func ownersOf(namespace string, references []metav1.OwnerReference) string {
	owners := make([]string, len(references))
	for i, r := range references {
		owners[i] = namespace + "/" + r.Name
	}
	slices.Sort(owners)
	return strings.Join(owners, ",")
}
