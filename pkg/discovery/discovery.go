// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package discovery answers what is known of a node's GPUs: which there are and how they are
// linked, which are healthy, and which have been given to pods.
//
// A Source looks at one place (the driver, the kubelet, a file) and returns Facts of the part that
// it can see; Merge puts the parts together. What a source cannot see it says as an Unavailable
// with a reason. It never answers with an empty list instead.
//
// The package knows no API server. The sources there are, are one list in cmd/tutti-agent.
package discovery

import (
	"context"
	"fmt"

	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
)

// Source looks at one place. Discover may be called again at any time, one call at a time; it ends
// soon after ctx does. An error is an *Unavailable where the source knows what is the matter.
type Source interface {
	Name() string
	Discover(ctx context.Context) (Facts, error)
}

// Watcher is a Source that learns of some changes by itself. Watch calls changed after each and
// returns when ctx is done.
type Watcher interface {
	Source
	Watch(ctx context.Context, changed func())
}

// Facts are what a source saw. A part that is nil it does not look at.
type Facts struct {
	// Hardware is what does not change while the node runs.
	Hardware *v1alpha1.NodeTopologySpec
	// Unhealthy are GPUs that must get no pod.
	Unhealthy []v1alpha1.UnhealthyGPU
	// Minors are the GPUs' device files by UUID: 3 for /dev/nvidia3.
	Minors map[string]int
	// Devices are what the kubelet may give and has given.
	Devices *Devices
	// Told is what others say of the GPUs, by which an agent finds out that it does not see all.
	Told *Told
}

// Told is what others say of a node's GPUs.
type Told struct {
	// GPUs may be instances where there are some, and of several models it may be one's.
	GPUs int
}

// Devices are those of the kubelet. Ids of whole GPUs are UUIDs; what is no whole GPU has no links
// of its own and is kept apart.
type Devices struct {
	// Allocatable are the whole GPUs that can be given, given ones included.
	Allocatable []string
	// Shared are ids of GPUs that several pods may get at a time, Instances those of MIG, and
	// Unknown those of neither form. All are allocatable, given, or both.
	Shared, Instances, Unknown []string
	// Given is which pods hold what, of all kinds.
	Given []Given
}

// Given is what one pod holds.
type Given struct {
	Namespace, Pod string
	// IDs are device ids, and for devices of a claim "driver/device".
	IDs []string
}

// Unavailable is the error of a source that cannot see: a state, not a fault of the program.
type Unavailable struct {
	Reason  string // one CamelCase word, for programs
	Message string // for people: what is the matter, and what to do
}

func (u *Unavailable) Error() string { return u.Reason + ": " + u.Message }

// Unavailablef makes one.
func Unavailablef(reason, format string, args ...any) *Unavailable {
	return &Unavailable{Reason: reason, Message: fmt.Sprintf(format, args...)}
}
