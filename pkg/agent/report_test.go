// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
	"github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/pkg/discovery"
	"github.com/tutti-project/tutti/pkg/topology"
)

func TestReports(t *testing.T) {
	seen := func(facts discovery.Facts) Answer { return Answer{Source: "s", Facts: facts} }
	blind := func(reason string) Answer {
		return Answer{Source: "blind", Err: discovery.Unavailablef(reason, "why")}
	}
	gpus := seen(discovery.Facts{Hardware: hardware(4)})
	pods := seen(discovery.Facts{Devices: given(4, 1)})
	holding := func(ids ...string) Answer {
		return seen(discovery.Facts{Devices: &discovery.Devices{
			Allocatable: []string{"GPU-0", "GPU-1"}, Given: []discovery.Given{{Namespace: "n", Pod: "p", IDs: ids}},
		}})
	}
	mig := hardware(2)
	mig.GPUs[1].MIG = true
	ill := v1alpha1.UnhealthyGPU{UUID: "GPU-3", Reason: "Xid", Message: strings.Repeat("long ", 400)}
	for name, tc := range map[string]struct {
		answers []Answer
		want    string
	}{
		"all is seen":                         {[]Answer{gpus, pods}, "True Seen: 4 GPUs, 3 free"},
		"a GPU is ill":                        {[]Answer{gpus, pods, seen(discovery.Facts{Unhealthy: []v1alpha1.UnhealthyGPU{ill}})}, "True Seen: 4 GPUs, 2 free, 1 unhealthy"},
		"a GPU is shared":                     {[]Answer{gpus, seen(discovery.Facts{Devices: &discovery.Devices{Allocatable: []string{"GPU-0"}, Shared: []string{"GPU-1::0", "GPU-1::1"}}})}, "True Seen: 4 GPUs, 1 free, 1 shared"},
		"a GPU is cut into instances":         {[]Answer{seen(discovery.Facts{Hardware: mig}), pods}, "True Seen: 2 GPUs, 0 free, 1 cut into instances"},
		"no driver":                           {[]Answer{blind("LibraryNotFound"), pods}, "False LibraryNotFound: it is not known which GPUs there are: blind: LibraryNotFound: why"},
		"no kubelet":                          {[]Answer{gpus, blind("KubeletUnreachable")}, "False KubeletUnreachable: it is not known which GPUs pods hold: blind: KubeletUnreachable: why"},
		"an error of no known kind":           {[]Answer{gpus, {Source: "odd", Err: errors.New("x")}}, "False NoSource: it is not known which GPUs pods hold: odd: x"},
		"nobody looks":                        {[]Answer{gpus}, "False NoSource: it is not known which GPUs pods hold: no source looks at it; see --sources"},
		"a pod holds what nobody knows":       {[]Answer{gpus, holding("GPU-unplugged")}, "False UnknownDevices: pods hold what is no GPU known here, so it is not certain which are free: GPU-unplugged"},
		"others see more GPUs":                {[]Answer{gpus, pods, seen(discovery.Facts{Told: &discovery.Told{GPUs: 8}})}, "False GPUCountDiffers"},
		"others count one model of two":       {[]Answer{gpus, pods, seen(discovery.Facts{Told: &discovery.Told{GPUs: 3}})}, "True Seen: 4 GPUs, 3 free"},
		"others count instances":              {[]Answer{seen(discovery.Facts{Hardware: mig}), pods, seen(discovery.Facts{Told: &discovery.Told{GPUs: 14}})}, "True Seen: 2 GPUs, 0 free, 1 cut into instances"},
		"others see as many":                  {[]Answer{gpus, pods, seen(discovery.Facts{Told: &discovery.Told{GPUs: 4}})}, "True Seen: 4 GPUs, 3 free"},
		"a source that is not needed":         {[]Answer{gpus, pods, blind("NoLabel")}, "True Seen: 4 GPUs, 3 free"},
		"others count one that is not opened": {[]Answer{seen(discovery.Facts{Hardware: hardware(3), Unhealthy: []v1alpha1.UnhealthyGPU{ill}}), seen(discovery.Facts{Devices: given(3, 0)}), seen(discovery.Facts{Told: &discovery.Told{GPUs: 4}})}, "True Seen: 3 GPUs, 3 free, 1 unhealthy"},
	} {
		t.Run(name, func(t *testing.T) {
			report := ReportOf(tc.answers)
			ready := report.Status.Conditions[0]
			got := string(ready.Status) + " " + ready.Reason + ": " + ready.Message
			if !strings.HasPrefix(got, tc.want) || ready.Status == "True" && got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if ready.Status == "False" && (report.Status.FreeCount > 0 || len(report.Status.Free) > 0) {
				t.Errorf("calls GPUs free that it is not sure of: %v", report.Status.Free)
			}
			if int(report.Status.FreeCount) != len(report.Status.Free) {
				t.Errorf("count %d of %v", report.Status.FreeCount, report.Status.Free)
			}
			for _, gpu := range report.Status.Unhealthy {
				if len(gpu.Message) > maxMessage {
					t.Errorf("a message of %d characters", len(gpu.Message))
				}
			}
		})
	}
}

// TestTheLabelIsOneThatTheSchedulerReads, after the one that people write.
func TestTheLabelIsOneThatTheSchedulerReads(t *testing.T) {
	levels := topology.DefaultLevels()
	if labels := levels[len(levels)-1].NodeLabels; slices.Index(labels, tutti.NVLinkDomainLabel) != 1 {
		t.Errorf("the narrowest level has the labels %v", labels)
	}
}

func TestDomainsAreLabelValues(t *testing.T) {
	for _, id := range []string{"", "a", "with space", strings.Repeat("x", 64)} {
		fabric := &v1alpha1.Fabric{ClusterUUID: id, CliqueID: 32766}
		if got := domainOf(fabric); len(got) > 63 || strings.Contains(got, " ") || got == "" {
			t.Errorf("%q gives %q", id, got)
		}
	}
	if got := domainOf(nil); got != "" {
		t.Errorf("no fabric gives %q", got)
	}
}
