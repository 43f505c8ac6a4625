// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tutti-project/tutti/pkg/clusterview"
	"github.com/tutti-project/tutti/pkg/placement"
)

func TestTryoutNamesTheFirstPodWithoutAPlace(t *testing.T) {
	cases := map[string]struct {
		tried []types.UID
		seats map[types.UID]bool
		want  types.UID
	}{
		"nobody was tried":                {nil, nil, ""},
		"all have places":                 {[]types.UID{"a", "b"}, map[types.UID]bool{"a": true, "b": true}, ""},
		"the first has none, and it ends": {[]types.UID{"a"}, nil, "a"},
		"the last has none":               {[]types.UID{"a", "b"}, map[types.UID]bool{"a": true}, "b"},
		"the second, and it goes on":      {[]types.UID{"a", "b", "c"}, map[types.UID]bool{"a": true, "c": true}, "b"},
		"two of them":                     {[]types.UID{"a", "b", "c"}, map[types.UID]bool{"b": true}, "a"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var tried tryout
			for _, pod := range tc.tried {
				tried.begin(pod)
				if tc.seats[pod] {
					tried.seat(pod)
				}
			}
			if got := tried.first(); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestGangThatWaitsKeepsItsRoom: one whose pods are not all queued yet, or that
// lets a torn gang go first, has been refused nothing.
func TestGangThatWaitsKeepsItsRoom(t *testing.T) {
	pod := podNamed("p")
	for name, tc := range map[string]struct {
		refusal *refusal
		kept    bool
	}{"it waits": {&refusal{waits: true}, true}, "it cannot be tried": {nil, false}} {
		t.Run(name, func(t *testing.T) {
			p := newPlugin(t, newFakeHandle(1), nil)
			p.rooms.keep(pod, "n", time.Now().Add(time.Hour))
			state := framework.NewCycleState()
			if tc.refusal != nil {
				state.Write(refusalKey, tc.refusal)
			}
			p.PodGroupPostFilter(t.Context(), state, oneOf(pod), nil)
			if kept := p.rooms.drop(pod); kept != tc.kept {
				t.Errorf("the room is kept: %t, want %t", kept, tc.kept)
			}
		})
	}
}

// podGroup is one pod's gang, as far as it is asked.
type podGroup struct {
	fwk.PodGroupInfo
	pods []*v1.Pod
}

func oneOf(pods ...*v1.Pod) podGroup             { return podGroup{pods: pods} }
func (g podGroup) GetUnscheduledPods() []*v1.Pod { return g.pods }
func (g podGroup) GetNamespace() string          { return "ns" }
func (g podGroup) GetName() string               { return "g" }

// TestVerdictOfManyVictimsIsShort: a condition's text is limited to 32,768 bytes.
func TestVerdictOfManyVictimsIsShort(t *testing.T) {
	var eviction clusterview.Eviction
	var all []int
	for i := range 2000 {
		eviction.Units = append(eviction.Units, clusterview.Unit{Pods: []*v1.Pod{podNamed(strings.Repeat("p", 200))}})
		eviction.Victims = append(eviction.Victims, placement.Victim{})
		all = append(all, i)
	}
	if words := inWords(eviction, all); len(words) > 20_000 || !strings.HasSuffix(words, ", and 1980 more") {
		t.Errorf("%d bytes that end with %q", len(words), words[len(words)-30:])
	}
	if words := inWords(eviction, all[:1]); strings.Contains(words, "more") {
		t.Errorf("of one victim: %q", words)
	}
}
