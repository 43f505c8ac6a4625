// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tutti-project/tutti/pkg/apis/tutti"
)

// RoleMinimum says that the gang never runs with fewer pods of a replica type.
type RoleMinimum struct {
	Type string
	Pods int
}

// RoleMinimumsOf reads the annotation of a PodGroup, in its own order.
func RoleMinimumsOf(annotations map[string]string) ([]RoleMinimum, error) {
	value, asked := annotations[tutti.RoleMinimumsAnnotation]
	if !asked {
		return nil, nil
	}
	malformed := func(part, why string) error {
		return fmt.Errorf("annotation %s: %q: %q %s; want role=n for each role, separated by commas, as in ps=1,worker=4",
			tutti.RoleMinimumsAnnotation, value, part, why)
	}
	var minimums []RoleMinimum
	for part := range strings.SplitSeq(value, ",") {
		name, number, ok := strings.Cut(part, "=")
		name, number = strings.TrimSpace(name), strings.TrimSpace(number)
		n, err := strconv.ParseUint(number, 10, 31)
		switch {
		case !ok || name == "":
			return nil, malformed(part, "names no role and number")
		case err != nil:
			return nil, malformed(part, "has no number from 0 up")
		case slices.ContainsFunc(minimums, func(m RoleMinimum) bool { return m.Type == name }):
			return nil, malformed(part, "names a role again")
		}
		minimums = append(minimums, RoleMinimum{Type: name, Pods: int(n)})
	}
	return minimums, nil
}
