// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
)

func TestPhase(t *testing.T) {
	for name, tc := range map[string]struct {
		minMember int32
		tally     tally
		want      v1alpha1.PodGroupPhase
	}{
		"no pods yet":                       {3, tally{}, v1alpha1.PodGroupPending},
		"none has a node":                   {3, tally{pods: 3}, v1alpha1.PodGroupPending},
		"all have nodes":                    {3, tally{pods: 3, bound: 3}, v1alpha1.PodGroupScheduling},
		"a part has a node":                 {3, tally{pods: 3, bound: 2, running: 2}, v1alpha1.PodGroupUnknown},
		"the minimum runs, extras wait":     {3, tally{pods: 5, bound: 3, running: 3}, v1alpha1.PodGroupRunning},
		"what has succeeded counts":         {3, tally{pods: 2, bound: 2, running: 2, succeeded: 1}, v1alpha1.PodGroupRunning},
		"all have succeeded":                {3, tally{succeeded: 3}, v1alpha1.PodGroupFinished},
		"one has failed":                    {3, tally{pods: 2, bound: 2, running: 2, failed: 1}, v1alpha1.PodGroupFailed},
		"failed and replaced, not yet run":  {3, tally{pods: 3, bound: 3, running: 1, failed: 1}, v1alpha1.PodGroupScheduling},
		"a minimum left out is one":         {0, tally{pods: 1, bound: 1, running: 1}, v1alpha1.PodGroupRunning},
		"succeeded beats failed extra pods": {2, tally{succeeded: 2, failed: 1}, v1alpha1.PodGroupFinished},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.tally.phase(tc.minMember); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// TestCountersAreWrittenWhenTheyDiffer: one patch brings a group's status up to
// date, and no request is made where it is.
func TestCountersAreWrittenWhenTheyDiffer(t *testing.T) {
	w, client, native := statusScene(t, storedGroup())
	name := types.NamespacedName{Namespace: "ns", Name: "g"}
	object := groupOf(2)
	w.projector.update(name, func(g *group) bool {
		g.object = object
		for i := range 3 {
			g.live[types.UID(fmt.Sprint(i))] = member{name: fmt.Sprint(i), bound: true, running: i > 0, owners: "ns/job"}
		}
		g.failed["x"] = metav1.Time{Time: epoch.Add(time.Second)}
		g.failed["of an earlier group"] = metav1.Time{Time: epoch.Add(-time.Second)}
		return true
	})
	if err := w.write(t.Context(), native.UID); err != nil {
		t.Fatal(err)
	}
	if len(client.Actions()) != 1 {
		t.Fatalf("%d requests, want one patch: %v", len(client.Actions()), client.Actions())
	}
	var patch struct{ Status map[string]any }
	if err := json.Unmarshal(client.Actions()[0].(clienttesting.PatchAction).GetPatch(), &patch); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"phase": "Failed", "running": 2.0, "failed": 1.0, "occupiedBy": "ns/job"}
	if diff := cmp.Diff(want, patch.Status); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	seen := object.DeepCopy()
	seen.Status = v1alpha1.PodGroupStatus{Phase: v1alpha1.PodGroupFailed, Running: 2, Failed: 1, OccupiedBy: "ns/job"}
	w.projector.update(name, func(g *group) bool { g.object = seen; return false })
	if err := w.write(t.Context(), native.UID); err != nil {
		t.Fatal(err)
	}
	if len(client.Actions()) != 1 {
		t.Errorf("a second request though nothing differs: %v", client.Actions()[1:])
	}
}
