// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

// fill says how many pods of each role go where.
type fill [][]share // [role]

type share struct {
	host int
	pods int64
}

// room is the capacity that is left while a gang is being packed: the problem's
// own, but for the hosts that have taken pods since the last reset.
type room struct {
	pl    *planner
	row   []int32 // [host] position+1 of its vector in left; 0 for an untouched host
	left  []int64
	hosts []int // touched
	short int   // the first role that came short in the last packing
}

func newRoom(pl *planner) room { return room{pl: pl, row: make([]int32, len(pl.p.Free))} }

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
		return rm.left[(i-1)*n : i*n]
	}
	return rm.pl.p.Free[host]
}

// slots is how many more pods of the role the host takes.
func (rm *room) slots(role, host int) int64 {
	s := rm.pl.slots[role][host]
	if s > 0 && rm.row[host] > 0 {
		s = slotsIn(rm.free(host), rm.pl.p.Roles[role])
	}
	return s
}

func (rm *room) take(role, host int, pods int64) {
	if rm.row[host] == 0 {
		rm.hosts = append(rm.hosts, host)
		rm.row[host] = int32(len(rm.hosts))
		rm.left = append(rm.left, rm.pl.p.Free[host]...)
	}
	left := rm.free(host)
	for d, request := range rm.pl.p.Roles[role].Request {
		left[d] -= max(request, 0) * pods
	}
}

// class ranks hosts for a role before their size does. Pods without devices
// first fill up where the gang's own devices are used up or where there are
// none, so that they do not take room from those who need devices.
func (rm *room) class(role, host int) int {
	used := rm.row[host] > 0
	if last := &rm.pl.tiers[len(rm.pl.tiers)-1]; last.anchored != nil && last.anchored[host] {
		used = true
	}
	class := 0
	if !used {
		class = 1
	}
	if !rm.pl.usesDevices(role) && rm.pl.devicesIn(rm.free(host)) > 0 {
		class += 2
	}
	return class
}

// add places need pods of one role on the hosts, as few of them as possible,
// and returns how many find no room. With ask set, hosts are asked first.
func (rm *room) add(role int, need int64, hosts []int, f fill, ask bool) int64 {
	keys := make([]key, 0, len(hosts))
	for _, h := range hosts {
		if s := rm.slots(role, h); s > 0 {
			keys = append(keys, newKey(rm.class(role, h), s, rm.pl.devicesIn(rm.free(h)), h))
		}
	}
	return bestFit(keys, need, func(h int, pods int64) bool {
		if ask && !rm.pl.mayUse(role, h) {
			return false
		}
		rm.take(role, h, pods)
		if f != nil {
			f[role] = append(f[role], share{h, pods})
		}
		return true
	})
}

// quickly packs role after role and returns how many pods of each find no room.
// Its "yes" is a packing; its "no" proves nothing when there are several roles.
func (rm *room) quickly(need []int64, hosts []int, f fill, ask bool) (missing []int64, ok bool) {
	rm.reset()
	missing, ok = make([]int64, len(need)), true
	for _, r := range rm.pl.order {
		if need[r] == 0 {
			continue
		}
		missing[r] = rm.add(r, need[r], hosts, f, ask)
		if missing[r] > 0 && ok {
			rm.short, ok = r, false
		}
	}
	return missing, ok
}

// fits says whether the hosts hold all roles at once, as far as is known of
// their eligibility. The exact packing may spend at most the given steps.
func (pl *planner) fits(need []int64, hosts []int, steps *int) bool {
	if _, ok := pl.room.quickly(need, hosts, nil, false); ok {
		return true
	}
	f, _ := pl.solve(need, hosts, steps)
	return f != nil
}

// pack places the gang on hosts of the list and asks for each that it uses. If
// it fails, again says whether hosts were excluded on the way, so that another
// choice of hosts may do.
func (pl *planner) pack(need []int64, hosts []int) (f fill, ok, again bool) {
	before := pl.exclusionCount
	f = make(fill, len(need))
	if _, ok = pl.room.quickly(need, hosts, f, true); ok {
		return f, true, false
	}
	if pl.exclusionCount > before {
		return nil, false, true
	}
	if f, _ = pl.solve(need, hosts, &pl.steps); f == nil {
		return nil, false, false
	}
	pl.room.reset()
	for r := range f {
		for _, s := range f[r] {
			if pl.mayUse(r, s.host) {
				pl.room.take(r, s.host, s.pods)
			}
		}
	}
	again = pl.exclusionCount > before
	return f, !again, again
}
