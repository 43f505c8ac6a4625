// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/pkg/placement"
	"github.com/tutti-project/tutti/pkg/topology"
)

// ConstraintOf reads what is asked of a gang. An unknown level is an error that
// names the key, the value and what is allowed: the gang must not be placed as if
// nothing had been asked.
func ConstraintOf(tree *topology.Tree, wishes Wishes) (placement.Constraint, error) {
	var constraint placement.Constraint
	for _, wish := range []struct {
		key   string
		level *int
	}{
		{tutti.RequiredTopologyAnnotation, &constraint.Required},
		{tutti.PreferredTopologyAnnotation, &constraint.Preferred},
	} {
		value, asked := wishes.of(wish.key)
		if !asked {
			continue
		}
		level, ok := tree.LevelIndex(value)
		if !ok {
			return placement.Constraint{}, unknownLevel(tree, wishes.in(wish.key), value)
		}
		*wish.level = level
	}
	if labels, carried := tree.NodeLabels(constraint.Required); !carried {
		return placement.Constraint{}, fmt.Errorf("%s: no node of this cluster carries the level %q, so no domain of it can hold the gang; its labels are %s",
			wishes.in(tutti.RequiredTopologyAnnotation), wishes[tutti.RequiredTopologyAnnotation].value, strings.Join(labels, ", "))
	}
	return constraint, sliceInto(&constraint, tree, wishes)
}

// UniformOf reads whether all pods of a role that asks for devices must have the
// same GPU model and shape of node, which they must unless the annotation says false.
func UniformOf(annotations map[string]string) (bool, error) {
	value, asked := annotations[tutti.UniformGPUsAnnotation]
	if !asked || value == "true" {
		return true, nil
	}
	if value == "false" {
		return false, nil
	}
	return false, fmt.Errorf("annotation %s: %q is neither true nor false", tutti.UniformGPUsAnnotation, value)
}

// moveAfter is how long a gang may run in part if it does not say.
const moveAfter = 5 * time.Minute

// MoveAfterOf reads how long a gang may run below its minimum before it is placed
// anew, whole, if it fits elsewhere; zero for ever.
func MoveAfterOf(annotations map[string]string) (time.Duration, error) {
	value, asked := annotations[tutti.MoveAfterAnnotation]
	if !asked {
		return moveAfter, nil
	}
	seconds, err := strconv.ParseUint(value, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("annotation %s: %q is no number of seconds; want a whole number, 0 for never", tutti.MoveAfterAnnotation, value)
	}
	return time.Duration(seconds) * time.Second, nil
}

// sliceInto reads the two annotations that only mean something together.
func sliceInto(constraint *placement.Constraint, tree *topology.Tree, wishes Wishes) error {
	size, sized := wishes.of(tutti.SliceSizeAnnotation)
	name, named := wishes.of(tutti.SliceTopologyAnnotation)
	sizeIn, nameIn := wishes.in(tutti.SliceSizeAnnotation), wishes.in(tutti.SliceTopologyAnnotation)
	switch {
	case !sized && !named:
		return nil
	case !sized:
		return fmt.Errorf("%s: %q is given without %s, the number of ranks of a slice", nameIn, name, tutti.SliceSizeAnnotation)
	case !named:
		return fmt.Errorf("%s: %q is given without %s, the level that a slice is to be in; the levels are %s",
			sizeIn, size, tutti.SliceTopologyAnnotation, strings.Join(tree.Levels(), ", "))
	}
	n, err := strconv.Atoi(size)
	if err != nil || n < 1 || n > math.MaxInt32 {
		return fmt.Errorf("%s: %q is no number of ranks; want a whole number from 1 up", sizeIn, size)
	}
	level, ok := tree.LevelIndex(name)
	if !ok {
		return unknownLevel(tree, nameIn, name)
	}
	constraint.SliceSize, constraint.SliceLevel = n, level
	return nil
}

func unknownLevel(tree *topology.Tree, in, value string) error {
	return fmt.Errorf("%s: %q is no level of this cluster; the levels are %s (or a node label of one)",
		in, value, strings.Join(tree.Levels(), ", "))
}

// ownAnnotations begin the keys that are Tutti's.
const ownAnnotations = "tutti.dev/"

// known refuses what nothing here would honour: a key that is none of Tutti's
// though it looks like one.
func known(annotations map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if strings.HasPrefix(key, ownAnnotations) && !slices.Contains(tutti.GangAnnotations, key) {
			return fmt.Errorf("annotation %s is unknown; those of a gang are %s", key, strings.Join(tutti.GangAnnotations, ", "))
		}
	}
	return nil
}
