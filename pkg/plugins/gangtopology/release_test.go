// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"testing"
	"time"
)

// TestGangGivesUpItsNodesAfterAMinuteOfFailures, and not because a binding failed
// at some time and another one later.
func TestGangGivesUpItsNodesAfterAMinuteOfFailures(t *testing.T) {
	s := time.Second
	cases := map[string]struct {
		failed   []time.Duration // when, since the start
		took     time.Duration   // each try
		releases int
		now      time.Duration
		want     bool
	}{
		"none failed":                           {nil, 0, 0, 0, false},
		"one has just failed":                   {[]time.Duration{0}, 0, 0, 0, false},
		"for half a minute":                     {[]time.Duration{0, 10 * s, 20 * s, 30 * s}, 0, 0, 30 * s, false},
		"for a minute":                          {[]time.Duration{0, 20 * s, 40 * s, 60 * s}, 0, 0, 61 * s, true},
		"for a minute, and then it went well":   {[]time.Duration{0, 20 * s, 40 * s, 60 * s}, 0, 0, 100 * s, false},
		"once, and an hour later again":         {[]time.Duration{0, time.Hour}, 0, 0, time.Hour, false},
		"for a minute, after it was released":   {[]time.Duration{0, 20 * s, 40 * s, 60 * s}, 0, 1, 61 * s, false},
		"for two minutes after it was released": {[]time.Duration{0, 25 * s, 50 * s, 75 * s, 100 * s, 120 * s}, 0, 1, 121 * s, true},
		"twice, after ten minutes each":         {[]time.Duration{600 * s, 1205 * s}, 600 * s, 0, 1206 * s, true},
		"once, after ten minutes":               {[]time.Duration{600 * s}, 600 * s, 0, 601 * s, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := failures{releases: tc.releases}
			for _, at := range tc.failed {
				f.add(epochZero.Add(at-tc.took), epochZero.Add(at))
			}
			if got := f.tooLong(epochZero.Add(tc.now)); got != tc.want {
				t.Errorf("too long: %t, want %t", got, tc.want)
			}
		})
	}
}
