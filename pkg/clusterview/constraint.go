// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"fmt"
	"strings"

	"github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/pkg/placement"
	"github.com/tutti-project/tutti/pkg/topology"
)

// ConstraintOf reads a PodGroup's annotations. An unknown level is an error
// that names the key, the value and what is allowed: the gang must not be
// placed as if nothing had been asked.
func ConstraintOf(tree *topology.Tree, annotations map[string]string) (placement.Constraint, error) {
	var constraint placement.Constraint
	for _, wish := range []struct {
		key   string
		level *int
	}{
		{tutti.RequiredTopologyAnnotation, &constraint.Required},
		{tutti.PreferredTopologyAnnotation, &constraint.Preferred},
	} {
		value, asked := annotations[wish.key]
		if !asked {
			continue
		}
		level, ok := tree.LevelIndex(value)
		if !ok {
			return placement.Constraint{}, fmt.Errorf("annotation %s: %q is no level of this cluster; the levels are %s (or a node label of one)",
				wish.key, value, strings.Join(tree.Levels(), ", "))
		}
		*wish.level = level
	}
	return constraint, nil
}
