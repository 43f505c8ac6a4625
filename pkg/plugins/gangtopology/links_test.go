// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
	"github.com/tutti-project/tutti/pkg/clusterview"
)

// refusedForLinks is a gang that was planned in vain, and demands links or not.
func refusedForLinks(t *testing.T, demands bool) (*gateScene, *linked) {
	s := newGateScene(t, 2, 2)
	l := &linked{gate: s.gate}
	s.arrive()
	s.after(settle)
	s.wantActivations(1)
	s.admitted()
	s.gate.takenUp(theGang)
	l.asks(theGang, demands)
	return s, l
}

func TestNewsOfLinksWakeWhoWaitsForThem(t *testing.T) {
	for demands, want := range map[bool]int{true: 2, false: 1} {
		s, l := refusedForLinks(t, demands)
		s.gate.refuse(theGang, anyRoom)
		s.after(lastRetry)
		s.wantActivations(1)
		l.changed()
		s.after(lastRetry)
		s.wantActivations(want)
	}
}

func TestNewsOfLinksDuringAPlanOutdateItsRefusal(t *testing.T) {
	s, l := refusedForLinks(t, true)
	l.changed()
	s.gate.refuse(theGang, anyRoom)
	s.after(lastRetry)
	s.wantActivations(2)
}

func TestGangsThatAreNoMoreAreForgotten(t *testing.T) {
	_, l := refusedForLinks(t, true)
	l.asks(types.NamespacedName{Namespace: "ns", Name: "gone"}, true)
	l.changed()
	if len(l.gangs) != 1 || !l.gangs[theGang] {
		t.Errorf("remembered are %v, want the gang that the gate knows", l.gangs)
	}
	if l.asks(theGang, false); len(l.gangs) > 0 {
		t.Errorf("remembered is %v, which demands nothing any more", l.gangs)
	}
}

func TestWhatANodeTopologyMayHelp(t *testing.T) {
	base := func() *v1alpha1.NodeTopology {
		return &v1alpha1.NodeTopology{Status: v1alpha1.NodeTopologyStatus{
			Free: []string{"a", "b"}, Fingerprint: "x", HeartbeatTime: &metav1.Time{Time: epochZero},
		}}
	}
	cases := map[string]struct {
		change        func(was, is *v1alpha1.NodeTopology)
		links, health bool
	}{
		"a heartbeat": {func(_, is *v1alpha1.NodeTopology) { is.Status.HeartbeatTime.Time = epochZero.Add(5 * time.Minute) }, false, false},
		"a heartbeat after long": {func(_, is *v1alpha1.NodeTopology) {
			is.Status.HeartbeatTime.Time = epochZero.Add(clusterview.HeartbeatLimit + time.Second)
		}, true, false},
		"one of a clock that was put right": {func(was, _ *v1alpha1.NodeTopology) { was.Status.HeartbeatTime.Time = epochZero.Add(time.Hour) }, true, false},
		"the first heartbeat":               {func(was, _ *v1alpha1.NodeTopology) { was.Status.HeartbeatTime = nil }, true, false},
		"a GPU less":                        {func(_, is *v1alpha1.NodeTopology) { is.Status.Free = is.Status.Free[:1] }, true, false},
		"other pods":                        {func(_, is *v1alpha1.NodeTopology) { is.Status.Fingerprint = "y" }, true, false},
		"other hardware":                    {func(_, is *v1alpha1.NodeTopology) { is.Generation++ }, true, false},
		"a GPU falls ill":                   {func(_, is *v1alpha1.NodeTopology) { is.Status.Unhealthy = make([]v1alpha1.UnhealthyGPU, 1) }, true, false},
		"a GPU is well again":               {func(was, _ *v1alpha1.NodeTopology) { was.Status.Unhealthy = make([]v1alpha1.UnhealthyGPU, 1) }, true, true},
	}
	for name, tc := range cases {
		was, is := base(), base()
		tc.change(was, is)
		if links, health := mayLink(was, is), moreHealthy(was, is); links != tc.links || health != tc.health {
			t.Errorf("%s: may link %t, more healthy %t; want %t, %t", name, links, health, tc.links, tc.health)
		}
	}
}
