// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import "github.com/tutti-project/tutti/pkg/topology"

// Unplaced stands for the host of a rank beyond the minimum that found no room.
const Unplaced = -1

// Decision is where the gang goes or, if Hosts is nil, why it goes nowhere.
type Decision struct {
	Hosts [][]int // [role][rank] is a host, or Unplaced; ranks follow tree order
	// GPUs are those of each pod, on hosts whose GPUs are unlike and that either
	// the planner picks or are all that is free; else the empty set. Nil if none.
	GPUs   [][]topology.Set // [role][rank]
	Level  int              // of Domain
	Domain int              // the narrowest domain that holds all placed and running pods

	// Rejections tells, when the gang does not fit, what those domains of the
	// required level have room for that are nearest to taking it, the nearest
	// first. Hosts that were not asked for count as eligible in all but the first.
	Rejections []Rejection
	// Empty is the decision on the minimum if no other pod ran; nil if the gang is
	// placed, or if it is not known what hosts would have then.
	Empty *Decision
	// Wider is the narrowest domain, wider than the required level allows, that
	// would take the minimum; nil if none does or the gang is placed.
	Wider *topology.Domain
	// Levels tells the same of the nearest domain of each level that is wider than
	// the required one and narrower than that of Wider, from narrow to wide.
	Levels []Rejection
	// Kinds is the kind of hosts that each role was planned with, empty for any.
	Kinds []string // [role]
	// Exclusions counts the hosts that were asked for and not eligible, by reason.
	Exclusions []Exclusion
	// Roughly is set when other domains of a level might be nearer than those told of.
	Roughly bool
	// Bounded is set when the search stopped at its limit somewhere. Then "does
	// not fit" means "not found", and a narrower domain may have been missed.
	Bounded bool
}

// Rejection is one domain that does not take the gang.
type Rejection struct {
	Domain    int
	Room      []int // [role] how many of the minimum it takes: the most pods, all roles at once
	AtLeast   bool  // the search for more stopped at its limit
	Shortages []Shortage
	// Barred is how many uniform roles may use no host of the kind that they were planned
	// with; it is found out for the first rejection only.
	Barred int
}

// Shortage is a role that is short in a domain, after all others took their room.
type Shortage struct {
	Role int
	Pods int // how many of the minimum find no room
	// Resource is the one that is scarcest, empty if each by itself would do.
	Resource string
	// Amount of Resource that these pods are short of.
	Amount int64
	// Unusable is how much of it is free on eligible hosts where no such pod, or slice
	// of them, fits.
	Unusable int64
	// Links says why hosts that have what a pod asks for do not take it, if their
	// GPUs' links are lacking.
	Links *LinkShortage
}

// Exclusion is a reason for which hosts were not eligible.
type Exclusion struct {
	Reason string
	Hosts  int
}
