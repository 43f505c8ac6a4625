// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
	"github.com/tutti-project/tutti/pkg/clusterview/machines"
	"github.com/tutti-project/tutti/pkg/topology"
)

// TestPromisesAreComparedWithWhatTheKubeletGave: of bridged pairs, 0 and 1 are one.
func TestPromisesAreComparedWithWhatTheKubeletGave(t *testing.T) {
	registerMetrics()
	nvlink, err := topology.ParseDemand("nvlink")
	if err != nil {
		t.Fatal(err)
	}
	placed := time.Unix(1_000_000, 500_000_000)
	pod := func(name string, uid types.UID) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: uid}}
	}
	const kept, broken, open = "kept", "broken", "open"
	for name, tc := range map[string]struct {
		link   topology.Demand
		given  []int
		pod    string
		node   string
		seen   time.Duration // after the placement
		before func(*promises)
		want   string
	}{
		"a pair":                        {nvlink, []int{0, 1}, "p", "n1", time.Second, nil, kept},
		"halves of two pairs":           {nvlink, []int{1, 2}, "p", "n1", time.Second, nil, broken},
		"within the second":             {nvlink, []int{1, 2}, "p", "n1", -400 * time.Millisecond, nil, broken},
		"nothing was promised":          {0, []int{1, 2}, "p", "n1", time.Second, nil, ""},
		"another pod's":                 {nvlink, []int{1, 2}, "q", "n1", time.Second, nil, open},
		"another node's":                {nvlink, []int{1, 2}, "p", "n2", time.Second, nil, open},
		"a report from before":          {nvlink, []int{1, 2}, "p", "n1", -time.Minute, nil, open},
		"a GPU that nobody knows":       {nvlink, []int{1, 99}, "p", "n1", time.Second, nil, open},
		"a pod that has ended":          {nvlink, []int{1, 2}, "p", "n1", time.Second, func(p *promises) { p.forget(pod("p", "1")) }, ""},
		"another of the name has ended": {nvlink, []int{1, 2}, "p", "n1", time.Second, func(p *promises) { p.forget(pod("p", "0")) }, broken},
		"it was placed elsewhere then":  {nvlink, []int{1, 2}, "p", "n1", time.Second, func(p *promises) { p.make("n3", pod("p", "1"), nvlink) }, open},
	} {
		t.Run(name, func(t *testing.T) {
			events := record.NewFakeRecorder(10)
			p := newPromises(events, testingclock.NewFakePassiveClock(placed))
			p.make("n1", pod("p", "1"), tc.link)
			if tc.before != nil {
				tc.before(p)
			}
			object, err := machines.Read("../../topology/testdata/hosts/a40-8", tc.node)
			if err != nil {
				t.Fatal(err)
			}
			given := v1alpha1.GivenGPUs{Namespace: "n", Pod: tc.pod}
			for _, i := range tc.given {
				given.GPUs = append(given.GPUs, machines.UUID(tc.node, i))
			}
			object.Status.Given = []v1alpha1.GivenGPUs{given}
			object.Status.HeartbeatTime = &metav1.Time{Time: placed.Add(tc.seen).Truncate(time.Second)}
			p.compare(object)
			p.compare(object) // says nothing twice

			got := ""
			switch {
			case len(events.Events) == 1:
				event := <-events.Events
				if got = broken; !strings.Contains(event, "GPULinkBroken") || !strings.Contains(event, "connected by nvlink") || !strings.Contains(event, machines.UUID("n1", 1)) {
					t.Error(event)
				}
			case len(events.Events) > 1:
				t.Errorf("%d events", len(events.Events))
			case len(p.open) > 0:
				got = open
			case tc.link > 0 && name != "a pod that has ended":
				got = kept
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
