// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"errors"
	"sync"
	"testing"
	"time"
)

// B52: calls start slowly, and then there are many of them at once.
func TestB52CallsStartSlowlyAndThenRunTogether(t *testing.T) {
	items := make([]int, 500)
	for i := range items {
		items[i] = i
	}
	var (
		mu      sync.Mutex
		running int
		most    int
		done    = map[int]int{}
		early   []int // how many ran while the n-th began
	)
	err := each(items, func(i int) error {
		mu.Lock()
		running++
		most = max(most, running)
		early = append(early, running)
		mu.Unlock()
		time.Sleep(time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		running--
		done[i]++
		return nil
	})
	if err != nil || len(done) != len(items) {
		t.Fatalf("%d of %d done, %v", len(done), len(items), err)
	}
	for i, n := range done {
		if n != 1 {
			t.Errorf("item %d was done %d times", i, n)
		}
	}
	if most != inFlight {
		t.Errorf("at most %d calls at once, want %d", most, inFlight)
	}
	for i, n := range early[:inFlight] {
		if n > i+1 {
			t.Errorf("call %d begins beside %d others", i+1, n-1)
		}
	}
}

func TestAFailureEndsTheCallsBeforeThereAreMany(t *testing.T) {
	quota := errors.New("exceeded quota")
	for name, tc := range map[string]struct {
		works    int // so many calls succeed
		wantMost int
	}{
		"nothing fits":      {0, 1},
		"one fits":          {1, 3},
		"three fit":         {3, 7},
		"a hundred of them": {100, 100 + inFlight},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			calls := 0
			err := each(make([]int, 500), func(int) error {
				mu.Lock()
				defer mu.Unlock()
				if calls++; calls > tc.works {
					return quota
				}
				return nil
			})
			if !errors.Is(err, quota) || calls > tc.wantMost {
				t.Errorf("%d calls, want at most %d; %v", calls, tc.wantMost, err)
			}
		})
	}
}
