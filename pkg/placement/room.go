// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"iter"
	"slices"
)

// fill says how many pods of each role go where.
type fill [][]share // [role]

type share struct {
	host int
	pods int64
}

// span is a set of hosts in tree order: a list, or without one a range.
type span struct {
	first, last int
	list        []int
}

func (s span) size() int {
	if s.list != nil {
		return len(s.list)
	}
	return s.last - s.first
}

func (s span) all() iter.Seq[int] {
	return func(yield func(int) bool) {
		if s.list == nil {
			for h := s.first; h < s.last && yield(h); h++ {
			}
			return
		}
		for _, h := range s.list {
			if !yield(h) {
				return
			}
		}
	}
}

// room is the capacity that is left while a gang is being packed: the problem's
// own, but for the hosts that have taken pods since the last reset.
type room struct {
	pl    *plan
	row   []int32 // [host] position+1 of its vector in left; 0 for an untouched host
	left  []int64 // of each, and behind it the pods of each role that it has taken
	hosts []int   // touched
	short int     // the first role that came short in the last packing
}

func (rm *room) reset() {
	for _, h := range rm.hosts {
		rm.row[h] = 0
	}
	rm.hosts, rm.left = rm.hosts[:0], rm.left[:0]
}

// free is the host's vector as it is now.
func (rm *room) free(host int) []int64 {
	if i := int(rm.row[host]); i > 0 {
		n := len(rm.pl.p.Resources)
		first := (i - 1) * (n + len(rm.pl.shapes))
		return rm.left[first : first+n : first+n]
	}
	return rm.pl.freeOn(host)
}

// taken are the pods of each role that a touched host has.
func (rm *room) taken(host int) []int64 {
	n := len(rm.pl.p.Resources) + len(rm.pl.shapes)
	i := int(rm.row[host])
	return rm.left[i*n-len(rm.pl.shapes) : i*n]
}

// slots is how many more pods of the role the host takes.
func (rm *room) slots(role, host int) int64 {
	s := rm.pl.slotsOf(role, host)
	if s > 0 && rm.row[host] > 0 {
		s = rm.pl.slotsBeside(role, host, rm.free(host), rm.taken(host))
	}
	return s
}

func (rm *room) devices(host int) int64 {
	if rm.row[host] > 0 {
		return rm.pl.devicesIn(rm.free(host))
	}
	return rm.pl.devicesOn(host)
}

func (rm *room) take(role, host int, pods int64) {
	if rm.row[host] == 0 {
		rm.left = append(rm.left, rm.pl.freeOn(host)...)
		rm.left = append(rm.left, make([]int64, len(rm.pl.shapes))...)
		rm.hosts = append(rm.hosts, host)
		rm.row[host] = int32(len(rm.hosts))
	}
	left := rm.free(host)
	for d, request := range rm.pl.p.Roles[role].Request {
		left[d] -= max(request, 0) * pods
	}
	rm.taken(host)[role] += pods
}

// class ranks hosts for a role before their size does. Pods without devices
// first fill up where the gang's own devices are used up or where there are
// none, so that they do not take room from those who need devices.
func (rm *room) class(role, host int) int {
	class := classPlain
	if !rm.pl.shapes[role].device && rm.devices(host) > 0 {
		class = classDevices
	}
	if rm.row[host] > 0 || rm.pl.tiers[len(rm.pl.tiers)-1].anchored[host] {
		class-- // the gang is there already
	}
	return class
}

func (rm *room) keyOf(role, host int) key {
	rank := rm.devices(host) // of a host that the gang uses already it is not known which GPUs are left
	if rm.row[host] == 0 {
		rank = rm.pl.rankOf(role, host)
	}
	return newKey(rm.class(role, host), rm.slots(role, host), rank, host)
}

// add places need pods of one role on the hosts, as few of them as possible,
// and returns how many find no room. With ask set, hosts are asked first.
func (rm *room) add(role int, need int64, hosts span, f fill, ask bool) int64 {
	take := func(h int, pods int64) bool {
		if ask && !rm.pl.mayUse(role, h) {
			return false
		}
		rm.take(role, h, pods)
		if f != nil {
			f[role] = append(f[role], share{h, pods})
		}
		return true
	}
	if hosts.list == nil && rm.pl.inOrder(role, hosts, need) {
		rm.pl.looked += int(need)
		return rm.addInOrder(role, need, hosts, take)
	}
	rm.pl.looked += hosts.size()
	keys := rm.pl.marks.keys[:0]
	for h := range hosts.all() {
		if rm.slots(role, h) > 0 {
			keys = append(keys, rm.keyOf(role, h))
		}
	}
	rm.pl.marks.keys = keys
	return bestFit(keys, need, take)
}

// inOrder says whether the planner's order of hosts serves a role: it knows
// nothing of assumed changes, and hosts outside the range have to be passed over.
func (pl *plan) inOrder(role int, hosts span, need int64) bool {
	size := int64(hosts.size())
	return pl.shapes[role].order != nil && len(pl.p.Changes) == 0 && size > 4*need+pl.fewHosts && size > int64(len(pl.free)/8)
}

// addInOrder does what bestFit does, without a look at every host: those that
// the gang uses are classes of their own, and all others are in order already.
func (rm *room) addInOrder(role int, need int64, hosts span, take func(int, int64) bool) int64 {
	var used []key
	use := func(h int) {
		if hosts.first <= h && h < hosts.last && rm.slots(role, h) > 0 {
			used = append(used, rm.keyOf(role, h))
		}
	}
	for _, h := range rm.hosts {
		use(h)
	}
	for h := range rm.pl.tiers[len(rm.pl.tiers)-1].anchored {
		if rm.row[h] == 0 {
			use(h)
		}
	}
	slices.Sort(used)
	for _, class := range []int{classPlain, classDevices} {
		first := slices.IndexFunc(used, func(k key) bool { return k.class() >= class })
		if first < 0 {
			first = len(used)
		}
		need = bestFit(used[:first], need, take)
		used = used[first:]
		if need > 0 {
			w := walk{rm: rm, role: role, hosts: hosts, class: class, order: rm.pl.shapes[role].order}
			need = w.bestFit(need, take)
		}
	}
	return need
}

// walk goes over the hosts of a class that the gang does not use.
type walk struct {
	rm    *room
	role  int
	hosts span
	class int
	order *ordered
}

// bestFit is the function of that name on this class.
func (w *walk) bestFit(need int64, take func(int, int64) bool) int64 {
	for p := w.order.seek(newKey(w.class, maxSlots, 0, 0)); need > 0; {
		k, ok := w.order.at(p)
		if !ok || k.class() != w.class {
			break
		}
		switch {
		case !w.offers(k):
			p = w.order.next(p)
		case k.slots() < need:
			if take(k.domain(), k.slots()) {
				need -= k.slots()
			}
			p = w.order.next(p)
		case w.closest(need, take):
			return 0
		default: // all that would be enough have refused
			p = w.order.seek(newKey(w.class, need-1, 0, 0))
		}
	}
	return need
}

// closest offers need pods to the hosts that have room for them, those with the
// least room first.
func (w *walk) closest(need int64, take func(int, int64) bool) bool {
	p, ok := w.order.fits(w.class, need)
	for ok {
		k, _ := w.order.at(p)
		enough := k.slots()
		for group := p; ; group = w.order.next(group) {
			k, in := w.order.at(group)
			if !in || k.class() != w.class || k.slots() != enough {
				break
			}
			if w.offers(k) && take(k.domain(), need) {
				return true
			}
		}
		p, ok = w.order.fits(w.class, enough+1)
	}
	return false
}

// offers says whether the host is one to look at: in range, not used by the
// gang, and not known to refuse the role.
func (w *walk) offers(k key) bool {
	h := k.domain()
	return w.hosts.first <= h && h < w.hosts.last && w.rm.row[h] == 0 &&
		!w.rm.pl.tiers[len(w.rm.pl.tiers)-1].anchored[h] && w.rm.pl.marks.asked[w.role][h] != ineligible
}
