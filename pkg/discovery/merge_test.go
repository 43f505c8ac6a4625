// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"strings"
	"testing"

	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
)

func TestFreeGPUs(t *testing.T) {
	hardware := &v1alpha1.NodeTopologySpec{GPUs: []v1alpha1.GPU{
		{Index: 0, UUID: "GPU-z"}, {Index: 1, UUID: "GPU-y"}, {Index: 2, UUID: "GPU-x"}, {Index: 3, UUID: "GPU-m", MIG: true},
	}}
	minors := map[string]int{"GPU-z": 1, "GPU-y": 0, "GPU-x": 2}
	all := []string{"GPU-m", "GPU-x", "GPU-y", "GPU-z"}
	held := func(ids ...string) []Given { return []Given{{Namespace: "n", Pod: "p", IDs: ids}} }
	for name, tc := range map[string]struct {
		devices        *Devices
		ill            string
		want, unplaced string
		held           string
	}{
		"nothing is given":           {&Devices{Allocatable: all}, "", "GPU-z GPU-y GPU-x", "", ""},
		"nobody says what is given":  {nil, "", "", "", ""},
		"one is given":               {&Devices{Allocatable: all, Given: held("GPU-y")}, "", "GPU-z GPU-x", "", "n/p GPU-y"},
		"one is ill":                 {&Devices{Allocatable: all}, "GPU-x", "GPU-z GPU-y", "", ""},
		"one is not offered":         {&Devices{Allocatable: []string{"GPU-x"}}, "", "GPU-x", "", ""},
		"one is shared":              {&Devices{Allocatable: all, Shared: []string{"GPU-z::0"}}, "", "GPU-y GPU-x", "", ""},
		"a part of one is given":     {&Devices{Allocatable: all, Given: held("GPU-z::3")}, "", "GPU-y GPU-x", "", ""},
		"one is given by a claim":    {&Devices{Given: held("gpu.nvidia.com/gpu-0")}, "", "GPU-z GPU-x", "", "n/p GPU-y"},
		"an instance is given":       {&Devices{Allocatable: all, Instances: []string{"MIG-1"}, Given: held("MIG-1")}, "", "GPU-z GPU-y GPU-x", "", ""},
		"a part of an instance":      {&Devices{Allocatable: all, Shared: []string{"MIG-1::0"}, Given: held("MIG-1::0")}, "", "GPU-z GPU-y GPU-x", "", ""},
		"two pods of one name":       {&Devices{Allocatable: all, Given: append(held("GPU-x"), held("GPU-z", "GPU-x")...)}, "", "GPU-y", "", "n/p GPU-z GPU-x"},
		"something unknown is given": {&Devices{Allocatable: all, Given: held("GPU-gone")}, "", "GPU-z GPU-y GPU-x", "GPU-gone", ""},
	} {
		t.Run(name, func(t *testing.T) {
			facts := []Facts{{Hardware: hardware, Minors: minors}, {Devices: tc.devices}}
			if tc.ill != "" {
				facts = append(facts, Facts{Unhealthy: []v1alpha1.UnhealthyGPU{{UUID: tc.ill, Reason: "R"}}})
			}
			merged := Merge(facts...)
			if got := strings.Join(merged.Free(), " "); got != tc.want {
				t.Errorf("free: %q, want %q", got, tc.want)
			}
			var pods []string
			for _, given := range merged.Held() {
				pods = append(pods, given.Namespace+"/"+given.Pod+" "+strings.Join(given.GPUs, " "))
			}
			if held := strings.Join(pods, ", "); held != tc.held {
				t.Errorf("held: %q, want %q", held, tc.held)
			}
			if got := strings.Join(merged.Unplaced(), " "); got != tc.unplaced {
				t.Errorf("unplaced: %q, want %q", got, tc.unplaced)
			}
		})
	}
}
