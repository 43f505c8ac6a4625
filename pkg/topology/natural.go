// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"strings"
)

// CompareNatural orders names as people do: runs of digits by their number, so
// that n2 comes before n10. It is a total order: 0 only for equal strings.
func CompareNatural(a, b string) int {
	if a == b {
		return 0
	}
	x, y := a, b
	for x != "" && y != "" {
		dx, dy := digits(x), digits(y)
		if dx == 0 || dy == 0 {
			if x[0] != y[0] {
				return cmp.Compare(x[0], y[0])
			}
			x, y = x[1:], y[1:]
			continue
		}
		nx, ny := strings.TrimLeft(x[:dx], "0"), strings.TrimLeft(y[:dy], "0")
		if c := cmp.Or(cmp.Compare(len(nx), len(ny)), cmp.Compare(nx, ny)); c != 0 {
			return c
		}
		x, y = x[dx:], y[dy:]
	}
	// Names that differ only in leading zeros still need an order.
	return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// digits is the length of the run of digits that s begins with.
func digits(s string) int {
	n := 0
	for n < len(s) && '0' <= s[n] && s[n] <= '9' {
		n++
	}
	return n
}
