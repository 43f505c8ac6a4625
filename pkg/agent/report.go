// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
	"github.com/tutti-project/tutti/pkg/discovery"
)

// Answer is what a source said: facts, or why it cannot see.
type Answer struct {
	Source string
	Facts  discovery.Facts
	Err    error
}

// Report is what is to be published of a node.
type Report struct {
	// Spec is nil while the hardware is not known: what was published before stays.
	Spec *v1alpha1.NodeTopologySpec
	// AsOf is when it was asked which pods hold GPUs; zero for just now.
	AsOf time.Time
	// Status has neither heartbeat nor generation, and its conditions no times.
	Status v1alpha1.NodeTopologyStatus
}

// Reasons of the condition Ready, beside those of sources.
const (
	reasonSeen           = "Seen"
	reasonNoSource       = "NoSource"
	reasonUnknownDevices = "UnknownDevices"
	reasonCountDiffers   = "GPUCountDiffers"
	reasonNotAccepted    = "NotAccepted"
)

const (
	maxMessage   = 1024
	maxUnhealthy = 64
)

// ReportOf puts together what the sources said. Which GPUs are free is said only if everything
// that takes part in it is known.
func ReportOf(answers []Answer) Report {
	var all []discovery.Facts
	for _, answer := range answers {
		if answer.Err == nil {
			all = append(all, answer.Facts)
		}
	}
	facts := discovery.Merge(all...)
	report := Report{Spec: facts.Hardware}
	for _, gpu := range facts.Unhealthy {
		gpu.Message = cut(gpu.Message)
		report.Status.Unhealthy = append(report.Status.Unhealthy, gpu)
	}
	report.Status.Unhealthy = report.Status.Unhealthy[:min(len(report.Status.Unhealthy), maxUnhealthy)]
	if facts.Devices != nil {
		report.Status.Fingerprint = v1alpha1.FingerprintOf(facts.Devices.Pods())
	}
	ready := judge(facts, answers)
	if ready.Status == metav1.ConditionTrue {
		report.Status.Free = facts.Free()
		report.Status.Given = facts.Held()
		report.Status.FreeCount = int32(len(report.Status.Free))
		ready.Message = summary(facts, len(report.Status.Free))
	}
	report.Status.Conditions = []metav1.Condition{ready}
	return report
}

// refused is the report that the API server does not take another one.
func refused(err error) Report {
	return Report{Status: v1alpha1.NodeTopologyStatus{Conditions: []metav1.Condition{
		unready(reasonNotAccepted, "the API server does not take what was seen of the node: "+err.Error()),
	}}}
}

func unready(reason, message string) metav1.Condition {
	return metav1.Condition{Type: v1alpha1.NodeTopologyReady, Status: metav1.ConditionFalse, Reason: reason, Message: cut(message)}
}

// judge is whether the report can be relied on, and if not, why.
func judge(facts discovery.Facts, answers []Answer) metav1.Condition {
	if facts.Hardware == nil || facts.Devices == nil {
		return unready(missing(facts, answers))
	}
	if ids := facts.Unplaced(); len(ids) > 0 {
		return unready(reasonUnknownDevices, "pods hold what is no GPU known here, so it is not certain which are free: "+strings.Join(ids, ", "))
	}
	seen := len(facts.Hardware.GPUs) + unnamed(facts)
	if told := facts.Told; told != nil && told.GPUs > seen && instances(facts) == 0 {
		return unready(reasonCountDiffers, fmt.Sprintf("the node's label says %d GPUs, but %d are seen: may the agent see all of them (NVIDIA_VISIBLE_DEVICES=all)?",
			told.GPUs, seen))
	}
	return metav1.Condition{Type: v1alpha1.NodeTopologyReady, Status: metav1.ConditionTrue, Reason: reasonSeen}
}

// missing is why the hardware or the devices are not known: what the sources say that do not see.
func missing(facts discovery.Facts, answers []Answer) (reason, message string) {
	var said []string
	for _, answer := range answers {
		if answer.Err == nil {
			continue
		}
		var unavailable *discovery.Unavailable
		if errors.As(answer.Err, &unavailable) && reason == "" {
			reason = unavailable.Reason
		}
		said = append(said, answer.Source+": "+answer.Err.Error())
	}
	what := "which GPUs there are"
	if facts.Hardware != nil {
		what = "which GPUs pods hold"
	}
	if reason == "" {
		reason = reasonNoSource
	}
	if len(said) == 0 {
		said = []string{"no source looks at it; see --sources"}
	}
	return reason, "it is not known " + what + ": " + strings.Join(said, "; ")
}

// unnamed are GPUs that could not be opened: they are unhealthy, and not part of the hardware.
func unnamed(facts discovery.Facts) int {
	n := 0
	for _, ill := range facts.Unhealthy {
		if !slices.ContainsFunc(facts.Hardware.GPUs, func(g v1alpha1.GPU) bool { return g.UUID == ill.UUID }) {
			n++
		}
	}
	return n
}

// instances are the GPUs that are cut into some.
func instances(facts discovery.Facts) int {
	n := 0
	for _, gpu := range facts.Hardware.GPUs {
		if gpu.MIG {
			n++
		}
	}
	return n
}

// summary is the node in a line.
func summary(facts discovery.Facts, free int) string {
	parts := []string{fmt.Sprintf("%d GPUs, %d free", len(facts.Hardware.GPUs), free)}
	for _, part := range []struct {
		n    int
		text string
	}{
		{len(facts.Unhealthy), "unhealthy"},
		{instances(facts), "cut into instances"},
		{sharedGPUs(facts.Devices.Shared), "shared"},
		{len(facts.Devices.Unknown), "devices of an unknown form"},
	} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.text))
		}
	}
	return strings.Join(parts, ", ")
}

// sharedGPUs counts the GPUs behind ids of shares.
func sharedGPUs(ids []string) int {
	gpus := map[string]bool{}
	for _, id := range ids {
		gpu, _, _ := strings.Cut(id, "::")
		gpus[gpu] = true
	}
	return len(gpus)
}

func cut(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage-3], "") + "..."
}
