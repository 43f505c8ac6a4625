// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
)

var epoch = metav1.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func groupOf(minMember int32) *v1alpha1.PodGroup {
	return &v1alpha1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: "g", Namespace: "ns", UID: "g-uid", CreationTimestamp: epoch, Annotations: map[string]string{"a": "b"}},
		Spec:       v1alpha1.PodGroupSpec{MinMember: minMember},
	}
}

func TestNativeFromGroup(t *testing.T) {
	live := func(priorities ...int32) map[types.UID]member {
		members := map[types.UID]member{}
		for i, priority := range priorities {
			name := string(rune('a' + i))
			members[types.UID(name)] = member{name: name, priority: priority}
		}
		return members
	}
	type projected struct{ MinCount, Priority int32 }
	cases := map[string]struct {
		group group
		want  *projected
	}{
		"no object yet":                                {group{live: live(0)}, nil},
		"no pod yet":                                   {group{object: groupOf(2)}, nil},
		"only finished pods":                           {group{object: groupOf(2), succeeded: map[types.UID]metav1.Time{"x": epoch}}, nil},
		"minMember becomes minCount":                   {group{object: groupOf(2), live: live(0)}, &projected{2, 0}},
		"succeeded members count":                      {group{object: groupOf(3), live: live(0), succeeded: map[types.UID]metav1.Time{"x": epoch}}, &projected{2, 0}},
		"those of an earlier group of the name do not": {group{object: groupOf(3), live: live(0), succeeded: map[types.UID]metav1.Time{"x": {Time: epoch.Add(-time.Second)}}}, &projected{3, 0}},
		"never less than one":                          {group{object: groupOf(1), live: live(0), succeeded: map[types.UID]metav1.Time{"x": epoch}}, &projected{1, 0}},
		"minMember left out is one":                    {group{object: groupOf(0), live: live(0)}, &projected{1, 0}},
		"priority is the members'":                     {group{object: groupOf(1), live: live(7, 7)}, &projected{1, 7}},
		"priority of a mixed group is the first":       {group{object: groupOf(1), live: live(7, 9)}, &projected{1, 7}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got *projected
			if native := nativeFrom(&tc.group); native != nil {
				got = &projected{native.Spec.SchedulingPolicy.Gang.MinCount, *native.Spec.Priority}
				if native.UID != "g-uid" || native.Annotations["a"] != "b" || native.Spec.DisruptionMode.All == nil {
					t.Errorf("identity, annotations or disruption mode lost: %+v", native)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestPodTransform(t *testing.T) {
	named := func(name string) *v1.PodSchedulingGroup { return &v1.PodSchedulingGroup{PodGroupName: &name} }
	cases := map[string]struct {
		scheduler, label string
		has, want        *v1.PodSchedulingGroup
	}{
		"a labelled pod of ours joins its group": {"tutti-scheduler", "g", nil, named("g")},
		"a pod without the label stays alone":    {"tutti-scheduler", "", nil, nil},
		"another scheduler's pod is left alone":  {"default-scheduler", "g", nil, nil},
		"a native group beats the label":         {"tutti-scheduler", "g", named("native"), named("native")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := &v1.Pod{
				ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{}}},
				Spec:       v1.PodSpec{SchedulerName: tc.scheduler, SchedulingGroup: tc.has},
			}
			if tc.label != "" {
				pod.Labels = map[string]string{v1alpha1.PodGroupLabel: tc.label}
			}
			got, err := NewMembership(sets.New("tutti-scheduler")).Transform(pod)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.(*v1.Pod).Spec.SchedulingGroup); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if got.(*v1.Pod).ManagedFields != nil {
				t.Error("managed fields are kept")
			}
		})
	}
}

func TestPodTransformLetsOtherObjectsPass(t *testing.T) {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	if got, err := NewMembership(nil).Transform(node); err != nil || got != any(node) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestPodKeepsTheGroupItWasFirstSeenIn(t *testing.T) {
	for name, labels := range map[string][2]string{
		"moved": {"a", "b"}, "taken out": {"a", ""}, "put in late": {"", "b"},
	} {
		t.Run(name, func(t *testing.T) {
			m := NewMembership(sets.New("tutti-scheduler"))
			groupOf := func(label string) string {
				pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1", Labels: map[string]string{v1alpha1.PodGroupLabel: label}}, Spec: v1.PodSpec{SchedulerName: "tutti-scheduler"}}
				if _, err := m.Transform(pod); err != nil {
					t.Fatal(err)
				}
				if pod.Spec.SchedulingGroup == nil {
					return ""
				}
				return *pod.Spec.SchedulingGroup.PodGroupName
			}
			for _, label := range labels {
				if got := groupOf(label); got != labels[0] {
					t.Errorf("with the label %q the pod is in group %q, want %q", label, got, labels[0])
				}
			}
			m.forget("1")
			if got := groupOf(labels[1]); got != labels[1] {
				t.Errorf("after it was forgotten the pod is in group %q, want %q", got, labels[1])
			}
		})
	}
}

func TestNativeGroupBeatsTheCRDs(t *testing.T) {
	native := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "g", Namespace: "ns", UID: "native", CreationTimestamp: epoch}}
	native.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: 3}
	g := newGroup()
	g.object, g.native = groupOf(7), native
	if got := nativeFrom(g); got != nil {
		t.Errorf("projected %v without a live member", got)
	}
	g.live["1"] = member{name: "a"}
	g.succeeded["2"], g.succeeded["3"] = epoch, metav1.Time{Time: epoch.Add(-time.Second)}
	got := nativeFrom(g)
	if got.UID != "native" || got.APIVersion != nativeType.APIVersion || got.Spec.SchedulingPolicy.Gang.MinCount != 2 {
		t.Errorf("projected %s %s with minimum %d, want the native group, one member less", got.APIVersion, got.UID, got.Spec.SchedulingPolicy.Gang.MinCount)
	}
	if native.Spec.SchedulingPolicy.Gang.MinCount != 3 || native.APIVersion != "" {
		t.Error("the informer's object was changed")
	}
	g.native = nil
	if got := nativeFrom(g); got.UID != "g-uid" || got.APIVersion != crdType.APIVersion {
		t.Errorf("projected %s %s, want the CRD's group", got.APIVersion, got.UID)
	}
}
