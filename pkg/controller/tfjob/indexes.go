// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// indexSet is a set of replica indexes; its text is "0,2-4".
type indexSet map[int]bool

// parseIndexes reads what String wrote. It is total: what it cannot read it leaves out.
func parseIndexes(text string) indexSet {
	set := indexSet{}
	for part := range strings.SplitSeq(text, ",") {
		low, high, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(low)
		last := first
		if err == nil && isRange {
			last, err = strconv.Atoi(high)
		}
		if err != nil || first < 0 || last >= maxReplicas {
			continue
		}
		for i := first; i <= last; i++ {
			set[i] = true
		}
	}
	return set
}

func (s indexSet) String() string {
	indexes := slices.Sorted(maps.Keys(s))
	var parts []string
	for i := 0; i < len(indexes); {
		end := i
		for end+1 < len(indexes) && indexes[end+1] == indexes[end]+1 {
			end++
		}
		part := strconv.Itoa(indexes[i])
		if end > i {
			part = fmt.Sprintf("%d-%d", indexes[i], indexes[end])
		}
		parts = append(parts, part)
		i = end + 1
	}
	return strings.Join(parts, ",")
}
