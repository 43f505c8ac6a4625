// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

// Limits of the searches that could take for ever. They count steps, not time, so
// that equal problems have equal decisions. A step is one count of pods looked at
// in the exact packing: some nanoseconds. 5,000 hosts with 20 parameter servers and
// any number of workers take at most 2 million.
const (
	maxSteps       = 1 << 25 // of one question
	maxVictimSteps = 1 << 26 // of all plans of a search for victims
	maxStates      = 1 << 23 // over all hosts of one packing
)

// limits are what one plan may still spend.
type limits struct {
	steps int // in packing domains exactly, with the listing of what hosts take, and in splitting slices
	cover int // in choosing sub-domains, which needs no proof
	most  int // in packing what a domain has room for
}

// limitsOf shares out so many steps: all of them for the packing, the choice of
// sub-domains in proportion.
func limitsOf(steps int) limits {
	return limits{steps: steps, cover: steps >> 4, most: maxMostSteps}
}
