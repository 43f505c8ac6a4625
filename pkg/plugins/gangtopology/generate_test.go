// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestTornSinceIsWhatThePodsSay, so that a new process counts from the same time.
func TestTornSinceIsWhatThePodsSay(t *testing.T) {
	at := func(seconds int) metav1.Time {
		return metav1.NewTime(epochZero.Add(time.Duration(seconds) * time.Second))
	}
	now := at(1000).Time
	bound := func(seconds int) *v1.Pod {
		pod := podNamed("on")
		pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: at(seconds)}}
		return pod
	}
	created := func(seconds int) *v1.Pod {
		pod := podNamed("waits")
		pod.CreationTimestamp = at(seconds)
		return pod
	}
	about := podNamed("about to be bound")
	about.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, LastTransitionTime: at(3)}}
	cases := map[string]struct {
		running []*v1.Pod
		waiting []*v1.Pod
		want    time.Time
	}{
		"amid the bindings of a start":           {[]*v1.Pod{bound(10), bound(12)}, []*v1.Pod{created(1), created(2)}, at(12).Time},
		"a member was lost, and made anew":       {[]*v1.Pod{bound(10), bound(12)}, []*v1.Pod{created(500)}, at(500).Time},
		"another one was lost after it":          {[]*v1.Pod{bound(10)}, []*v1.Pod{created(500), created(700)}, at(500).Time},
		"one is about to be bound":               {[]*v1.Pod{bound(10), about}, []*v1.Pod{created(1)}, now},
		"one runs of which nothing more is said": {[]*v1.Pod{{Status: v1.PodStatus{StartTime: new(at(20))}}}, []*v1.Pod{created(1)}, at(20).Time},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			waiting := map[string]*v1.Pod{}
			for i, pod := range tc.waiting {
				waiting[string(rune('a'+i))] = pod
			}
			if got := tornSince(tc.running, waiting, now); !got.Equal(tc.want) {
				t.Errorf("torn since %v, want %v", got, tc.want)
			}
		})
	}
}

// TestStartingIsWhatHasNeverBeenWhole, and was bound a moment ago.
func TestStartingIsWhatHasNeverBeenWhole(t *testing.T) {
	const quorum = 3
	at := func(seconds int) metav1.Time {
		return metav1.NewTime(epochZero.Add(time.Duration(seconds) * time.Second))
	}
	cases := map[string]struct {
		bound, created []int // seconds
		now            int
		want           bool
	}{
		"amid the bindings of a start":            {[]int{10, 11}, []int{1}, 12, true},
		"one is bound at last":                    {[]int{10, 50}, []int{1}, 80, true},
		"in the second in which it was made":      {[]int{10}, []int{10, 10}, 12, true},
		"a member was lost, and made anew":        {[]int{10, 11}, []int{12}, 13, false},
		"one of two that were lost is back":       {[]int{10, 40}, []int{30}, 41, false},
		"more pods wait than the minimum asks":    {[]int{10}, []int{1, 1, 1, 1}, 12, true},
		"the minimum was raised, and pods came":   {[]int{10, 11}, []int{30, 30}, 31, false},
		"it has run in part for longer than that": {[]int{10, 11}, []int{1}, 11 + int(startsFor.Seconds()), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var running []*v1.Pod
			waiting := map[string]*v1.Pod{}
			for _, seconds := range tc.bound {
				pod := podNamed("on")
				pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: at(seconds)}}
				running = append(running, pod)
			}
			for i, seconds := range tc.created {
				pod := podNamed("waits")
				pod.CreationTimestamp = at(seconds)
				waiting[string(rune('a'+i))] = pod
			}
			if got := starting(running, waiting, quorum, at(tc.now).Time); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}
