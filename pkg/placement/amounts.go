// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import "math"

// Amounts are any 64-bit integers, whatever somebody has written into a node or a
// pod. What is added up or multiplied stops at the largest instead of turning
// negative.

// plus is a + b.
func plus(a, b int64) int64 {
	switch sum := a + b; {
	case b > 0 && sum < a:
		return math.MaxInt64
	case b < 0 && sum > a:
		return math.MinInt64
	default:
		return sum
	}
}

// times is a * n, of numbers that are not negative.
func times(a, n int64) int64 {
	if n > 0 && a > math.MaxInt64/n {
		return math.MaxInt64
	}
	return a * n
}

// maxHostDevices is more devices than are counted of one host: all hosts together
// have less than an int64 holds.
const maxHostDevices = 1 << 40

// total is a sum of amounts from which some can be taken off again: the upper and
// the lower half of each are added up.
type total struct{ upper, lower int64 }

func (t *total) add(n, sign int64) {
	t.upper += sign * (n >> 32)
	t.lower += sign * (n & math.MaxUint32)
}

// amount stops at the largest.
func (t total) amount() int64 {
	upper := t.upper + t.lower>>32
	if upper > math.MaxInt32 {
		return math.MaxInt64
	}
	return upper<<32 | t.lower&math.MaxUint32
}
