// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
)

// Membership gives pods of the named schedulers the scheduling group that their
// pod-group label names, as a native client would have written it. An API server
// that does not serve the field drops it on creation, so it is set on what the
// informer has read; a group that a pod already has is left alone.
//
// To the engine the field cannot change, and a pod that moved would stay in its
// old group for ever. Labels do change, so the first group that a pod was seen
// in, or none, is the one it keeps.
type Membership struct {
	schedulers sets.Set[string]

	mu    sync.Mutex
	first map[types.UID]string
}

// NewMembership makes one for the pods of these schedulers.
func NewMembership(schedulers sets.Set[string]) *Membership {
	return &Membership{schedulers: schedulers, first: map[types.UID]string{}}
}

// Transform is the pod informer's. It also drops managed fields: SetTransform
// replaces the transform by which the engine does so.
func (m *Membership) Transform(obj any) (any, error) {
	if accessor, err := meta.Accessor(obj); err == nil {
		accessor.SetManagedFields(nil)
	}
	pod, ok := obj.(*v1.Pod)
	if !ok || pod.Spec.SchedulingGroup != nil {
		return obj, nil
	}
	if name := m.groupOf(pod); name != "" {
		pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &name}
	}
	return pod, nil
}

// groupOf is the pod's group, or empty.
func (m *Membership) groupOf(pod *v1.Pod) string {
	switch group := pod.Spec.SchedulingGroup; {
	case group != nil && group.PodGroupName != nil:
		return *group.PodGroupName
	case group != nil || !m.schedulers.Has(pod.Spec.SchedulerName):
		return ""
	default:
		return m.firstOf(pod)
	}
}

func (m *Membership) firstOf(pod *v1.Pod) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	name, known := m.first[pod.UID]
	if !known {
		name = pod.Labels[v1alpha1.PodGroupLabel]
		m.first[pod.UID] = name
	}
	return name
}

// forget drops a pod that is gone.
func (m *Membership) forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.first, uid)
}
