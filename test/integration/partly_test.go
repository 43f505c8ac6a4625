// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"
	"time"
)

// TestRecorderTellsPartFromWhole: the other tests believe it.
func TestRecorderTellsPartFromWhole(t *testing.T) {
	begin := time.Unix(1000, 0)
	at := func(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }
	bound := func(seconds int) *life { return &life{gang: "g", bound: at(seconds)} }
	waiting := &life{gang: "g"}
	left := &life{gang: "g", bound: at(1), gone: at(4)}
	cases := map[string]struct {
		seen []*life
		want time.Duration
	}{
		"nothing is bound":                   {[]*life{waiting, waiting, waiting}, 0},
		"all are bound, the last after two":  {[]*life{bound(3), bound(1), bound(2)}, 2 * time.Second},
		"one still waits":                    {[]*life{bound(1), bound(2), waiting}, 9 * time.Second},
		"one still waits when another left":  {[]*life{left, bound(2), waiting}, 3 * time.Second},
		"an extra comes after it was whole":  {[]*life{bound(1), bound(1), bound(2), bound(8)}, time.Second},
		"another gang's pods do not count":   {[]*life{{gang: "other", bound: at(1)}, waiting}, 0},
		"one left after the gang was whole":  {[]*life{left, bound(1), bound(1)}, 0},
		"a replacement waits after one left": {[]*life{left, bound(1), bound(1), waiting}, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := &recorder{seen: tc.seen}
			if got := r.partlyBound("g", 3, at(10)); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}
