// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

func TestGoals(t *testing.T) {
	for name, tc := range map[string]struct {
		goal  Goal
		ratio float64
		met   bool
		line  string
	}{
		"at most, at the limit": {Goal{Name: "g", Limit: 1.5}, 1.5, true, "RATIO g 1.500 <=1.5"},
		"at most, above":        {Goal{Name: "g", Limit: 1.5}, 1.501, false, "RATIO g 1.501 <=1.5"},
		"at least, above":       {Goal{Name: "g", Limit: 8, AtLeast: true}, 9, true, "RATIO g 9.000 >=8"},
		"at least, below":       {Goal{Name: "g", Limit: 8, AtLeast: true}, 7.99, false, "RATIO g 7.990 >=8"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.goal.Met(tc.ratio); got != tc.met {
				t.Errorf("met: %t, want %t", got, tc.met)
			}
			if got := tc.goal.Line(tc.ratio); got != tc.line {
				t.Errorf("line %q, want %q", got, tc.line)
			}
		})
	}
}

func TestContendersTakeTurns(t *testing.T) {
	var labels []string
	contender := func(name string, took time.Duration) Contender[Took] {
		return Contender[Took]{name, func(_ context.Context, label string) (Took, error) {
			labels = append(labels, label)
			return Took(took), nil
		}}
	}
	results, err := Turns(t.Context(), 2, []Contender[Took]{contender("a", time.Second), contender("b", 2*time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a-0", "b-0", "a-1", "b-1"}; !slices.Equal(labels, want) {
		t.Errorf("turns %v, want %v", labels, want)
	}
	if got := Median(results["b"], Took.Seconds); got != 2 {
		t.Errorf("median of b is %g, want 2", got)
	}
	broken := errors.New("broken")
	_, err = Turns(t.Context(), 1, []Contender[Took]{{"a", func(context.Context, string) (Took, error) { return 0, broken }}})
	if !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
}

func TestMedian(t *testing.T) {
	if got := Median([]Took{3e9, 1e9, 2e9}, Took.Seconds); got != 2 {
		t.Errorf("median %g, want 2", got)
	}
}
