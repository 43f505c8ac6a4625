// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"slices"
	"testing"
)

func TestTally(t *testing.T) {
	for want, count := range map[string]tally{
		"6 pods":                   {placed: 6, all: 6},
		"1 pod":                    {placed: 1, all: 1},
		"4 of 10 pods":             {placed: 4, all: 10},
		"1 more, now 7 of 7 pods,": {placed: 1, running: 6, all: 7},
		"2 more, now 8 of 9 pods,": {placed: 2, running: 6, all: 9},
	} {
		if got := count.String(); got != want {
			t.Errorf("%+v: got %q, want %q", count, got, want)
		}
	}
}

func TestReporterSendsAnEventForEachNewText(t *testing.T) {
	handle := newFakeHandle(1)
	report := newPlugin(t, handle, nil).report
	for _, text := range []string{"room for 1 of 2", "room for 1 of 2", "room for 2 of 3"} {
		report.refused(handle.group, text)
	}
	want := []string{"Warning FailedScheduling: room for 1 of 2", "Warning FailedScheduling: room for 2 of 3"}
	if !slices.Equal(handle.events, want) {
		t.Errorf("events %q, want %q", handle.events, want)
	}
}
