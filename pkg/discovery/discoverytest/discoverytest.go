// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package discoverytest answers whether a discovery.Source keeps its word. It must not know which.
package discoverytest

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
	"github.com/tutti-project/tutti/pkg/discovery"
)

// patience is how long a source may take to notice the end of its context.
const patience = 30 * time.Second

var word = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{1,63}$`)

// Run tests what holds for every source, whether or not it can see anything now.
func Run(t *testing.T, source discovery.Source) {
	t.Helper()
	if source.Name() == "" {
		t.Error("the source has no name")
	}
	facts, err := source.Discover(t.Context())
	again, errAgain := source.Discover(t.Context())
	if diff := cmp.Diff(facts, again); diff != "" {
		t.Errorf("asked twice, it answers differently (-first +second):\n%s", diff)
	}
	if (err == nil) != (errAgain == nil) {
		t.Errorf("asked twice, it fails once: %v, then %v", err, errAgain)
	}
	if err != nil {
		checkError(t, err)
	} else {
		checkFacts(t, facts)
	}
	endsWithContext(t, source)
}

func checkError(t *testing.T, err error) {
	t.Helper()
	var unavailable *discovery.Unavailable
	if errors.As(err, &unavailable) && (!word.MatchString(unavailable.Reason) || unavailable.Message == "") {
		t.Errorf("a state needs a word for programs and a text for people: %q, %q", unavailable.Reason, unavailable.Message)
	}
}

func checkFacts(t *testing.T, facts discovery.Facts) {
	t.Helper()
	if facts.Hardware == nil && facts.Devices == nil && facts.Told == nil && len(facts.Unhealthy) == 0 {
		t.Error("neither facts nor an error: what cannot be seen is an error")
	}
	if facts.Hardware != nil {
		checkHardware(t, facts.Hardware)
	}
	for _, gpu := range facts.Unhealthy {
		if gpu.UUID == "" || !word.MatchString(gpu.Reason) || gpu.Message == "" {
			t.Errorf("an unhealthy GPU needs a UUID, a reason in one word and a message: %+v", gpu)
		}
	}
	if d := facts.Devices; d != nil {
		for _, ids := range [][]string{d.Allocatable, d.Shared, d.Instances, d.Unknown} {
			if !slices.IsSorted(ids) {
				t.Errorf("ids are not sorted: %v", ids)
			}
		}
	}
}

func checkHardware(t *testing.T, hardware *v1alpha1.NodeTopologySpec) {
	t.Helper()
	indices := map[int32]bool{}
	uuids := map[string]bool{}
	for _, gpu := range hardware.GPUs {
		if gpu.UUID == "" || uuids[gpu.UUID] || indices[gpu.Index] {
			t.Errorf("GPU %d (%q) is there twice, or has no UUID", gpu.Index, gpu.UUID)
		}
		indices[gpu.Index], uuids[gpu.UUID] = true, true
	}
	if !slices.IsSortedFunc(hardware.GPUs, func(a, b v1alpha1.GPU) int { return int(a.Index - b.Index) }) {
		t.Error("GPUs are not in order of their index")
	}
	for _, link := range hardware.Links {
		if link.From >= link.To || !indices[link.From] || !indices[link.To] || link.PCIe == "" {
			t.Errorf("link %+v is not from a lower to a higher GPU of the node with a PCIe level", link)
		}
	}
}

// endsWithContext: a source that is waiting stops.
func endsWithContext(t *testing.T, source discovery.Source) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = source.Discover(ctx) // any answer will do
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Errorf("it does not return within %v of the end of its context", patience)
	}
}
