// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"testing"

	"github.com/tutti-project/tutti/test/controlplane"
)

func TestRequestsAreCounted(t *testing.T) {
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(plane.Stop)
	if err := plane.CreateNodes(t.Context(), controlplane.Machines{Spines: 1, RacksPerSpine: 1, NodesPerRack: 3}); err != nil {
		t.Fatal(err)
	}
	requests, err := plane.Requests(t.Context(), "nodes")
	if err != nil || requests["POST"] != 3 {
		t.Errorf("%v: counted %v, want 3 creations", err, requests)
	}
}
