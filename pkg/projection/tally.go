// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
)

// tally is how the members of a group stand: pods counts all that exist, bound
// those that have a node and have not ended.
type tally struct{ pods, bound, running, succeeded, failed int32 }

// phase says it in one word, as the API's comments define them.
func (t tally) phase(minMember int32) v1alpha1.PodGroupPhase {
	minMember = max(1, minMember)
	switch placed := t.bound + t.succeeded; {
	case t.succeeded >= minMember:
		return v1alpha1.PodGroupFinished
	case t.failed > 0 && t.failed+t.running+t.succeeded >= minMember:
		return v1alpha1.PodGroupFailed
	case t.running+t.succeeded >= minMember:
		return v1alpha1.PodGroupRunning
	case placed >= minMember:
		return v1alpha1.PodGroupScheduling
	case placed > 0:
		return v1alpha1.PodGroupUnknown // a part has a node, and the rest has not
	default:
		return v1alpha1.PodGroupPending
	}
}

// statusOf is what the status of a CRD's group should say beside its conditions,
// and the object as it was last seen. False when there is no such group.
func (p *Projector) statusOf(name types.NamespacedName, uid types.UID) (want v1alpha1.PodGroupStatus, object *v1alpha1.PodGroup, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.groups[name]
	if g == nil || g.object == nil || g.object.UID != uid {
		return want, nil, false
	}
	var t tally
	for _, m := range g.live {
		t.pods++
		if m.bound {
			t.bound++
		}
		if m.running {
			t.running++
		}
	}
	t.succeeded = since(g.object.CreationTimestamp, g.succeeded)
	t.failed = since(g.object.CreationTimestamp, g.failed)
	want = v1alpha1.PodGroupStatus{
		Phase: t.phase(g.object.Spec.MinMember), Running: t.running, Succeeded: t.succeeded, Failed: t.failed,
		OccupiedBy: g.object.Status.OccupiedBy, ScheduleStartTime: g.object.Status.ScheduleStartTime,
	}
	if want.OccupiedBy == "" {
		want.OccupiedBy = g.first().owners
	}
	return want, g.object, true
}
