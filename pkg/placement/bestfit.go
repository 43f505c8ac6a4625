// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import "slices"

// key orders domains by preference, packed so that sorting thousands is cheap:
// class, then most slots, then least rank, then tree order. The rank of a host is
// that of its offer, of another domain how many devices are free in it.
//
//	63..62 class   61..42 maxSlots-slots   41..20 rank   19..0 domain
type key uint64

const (
	maxSlots   = 1<<20 - 1 // beyond the pods of any gang
	maxRank    = 1<<22 - 1
	maxDomains = 1<<20 - 1
)

func newKey(class int, slots, rank int64, domain int) key {
	return key(class)<<62 | key(maxSlots-min(slots, maxSlots))<<42 | key(min(rank, maxRank))<<20 | key(domain)
}

func (k key) class() int   { return int(k >> 62) }
func (k key) slots() int64 { return maxSlots - int64(k>>42&maxSlots) }
func (k key) rank() int64  { return int64(k >> 20 & maxRank) }
func (k key) domain() int  { return int(k & maxDomains) }

// equals says whether the keys differ in nothing but the domain.
func (k key) equals(o key) bool { return k>>20 == o>>20 }

// bestFit takes need slots from as few domains as possible, class by class: the
// largest as a whole, and at last the smallest that is enough. take may refuse
// a domain; then the next best is offered. It returns what is still missing.
func bestFit(keys []key, need int64, take func(domain int, slots int64) bool) int64 {
	slices.Sort(keys)
	for need > 0 && len(keys) > 0 {
		if keys[0].slots() < need {
			if take(keys[0].domain(), keys[0].slots()) {
				need -= keys[0].slots()
			}
			keys = keys[1:]
			continue
		}
		// The first is enough: offer all those of its class with the least
		// slots that still are.
		last := len(keys)
		for last > 0 && (keys[last-1].class() != keys[0].class() || keys[last-1].slots() < need) {
			last--
		}
		first := last - 1
		for first > 0 && keys[first-1].slots() == keys[last-1].slots() {
			first--
		}
		for _, k := range keys[first:last] {
			if take(k.domain(), need) {
				return 0
			}
		}
		keys = slices.Delete(keys, first, last)
	}
	return need
}
