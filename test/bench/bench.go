// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package bench is what the benchmarks have in common: contenders take turns, so
// that whatever else the machine does meets all of them alike, a figure is the
// median of its turns, and a goal bounds the ratio of two figures.
package bench

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

// Main runs a benchmark until it ends or is interrupted, and exits with status 1
// when it fails or misses a goal.
func Main(run func(ctx context.Context) (met bool, err error)) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	met, err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
	if err != nil || !met {
		os.Exit(1)
	}
}

// Goal is a ratio that must hold.
type Goal struct {
	Name  string
	Limit float64
	// AtLeast tells that the ratio must not be less than the limit; otherwise it
	// must not be more.
	AtLeast bool
}

// Met tells whether the ratio is within the goal.
func (g Goal) Met(ratio float64) bool {
	if g.AtLeast {
		return ratio >= g.Limit
	}
	return ratio <= g.Limit
}

// Report prints the goal's line and returns Met.
func (g Goal) Report(ratio float64) bool {
	fmt.Println(g.Line(ratio))
	return g.Met(ratio)
}

// Line says what the ratio is and should be; programs find it by its first word.
func (g Goal) Line(ratio float64) string {
	return fmt.Sprintf("RATIO %s %.3f %s", g.Name, ratio, g.Bound())
}

// Bound is what the goal allows: <=1.5.
func (g Goal) Bound() string {
	sign := "<="
	if g.AtLeast {
		sign = ">="
	}
	return fmt.Sprintf("%s%g", sign, g.Limit)
}

// Contender is one of those that are compared. R is the result of one turn.
type Contender[R any] struct {
	Name string
	// Run takes a turn; label differs from turn to turn and from contender to
	// contender, and is a DNS label when the name is.
	Run func(ctx context.Context, label string) (R, error)
}

// Turns lets all contenders take so many turns, one after the other, shows each
// result as it comes, and returns them by contender, in the order of their turns.
func Turns[R fmt.Stringer](ctx context.Context, turns int, contenders []Contender[R]) (map[string][]R, error) {
	results := map[string][]R{}
	for turn := range turns {
		for _, c := range contenders {
			result, err := c.Run(ctx, fmt.Sprintf("%s-%d", c.Name, turn))
			if err != nil {
				return nil, fmt.Errorf("%s, turn %d: %w", c.Name, turn+1, err)
			}
			fmt.Printf("turn %d  %-14s %s\n", turn+1, c.Name, result)
			results[c.Name] = append(results[c.Name], result)
		}
	}
	return results, nil
}

// Took is a result that is a time.
type Took time.Duration

// String implements fmt.Stringer.
func (t Took) String() string { return fmt.Sprintf("%6.2f s", t.Seconds()) }

// Seconds of the time.
func (t Took) Seconds() float64 { return time.Duration(t).Seconds() }

// Median is the middle figure of the results; of an even number of them, the
// larger of the two in the middle.
func Median[R any](results []R, figure func(R) float64) float64 {
	figures := make([]float64, len(results))
	for i, r := range results {
		figures[i] = figure(r)
	}
	slices.Sort(figures)
	return figures[len(figures)/2]
}
