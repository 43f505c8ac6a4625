// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	"github.com/tutti-project/tutti/pkg/topology"
)

// maxShapes bounds what a planner remembers; the least recently used goes first.
const maxShapes = 32

// shape is what a planner knows of pods with one request vector.
type shape struct {
	request []int64
	kind    int // of hosts that count; anyKind for all
	// slots of every host for a request that nothing bounds, or else 0.
	unbound int64
	device  bool // asks for devices
	// link is the demand that limits it, and gpu what it is for; else both are 0.
	link topology.Demand
	gpu  int

	keys  []key     // [host] its slots, and its place among the hosts
	sums  [][]int64 // [tier but the last][domain] slots
	order *ordered  // of keys that have slots; nil in a single plan
	most  int64     // no host has or had more slots
	seen  int       // changes of the planner that are in it
}

// shapeOf finds or makes the role's shape and brings it up to date.
func (c *Planner) shapeOf(role *Role, kind int) *shape {
	unbound := int64(0)
	if !slices.ContainsFunc(role.Request, func(n int64) bool { return n > 0 }) {
		unbound = int64(role.Pods)
	}
	link, gpu := topology.Demand(0), 0
	if role.demands() {
		link, gpu = role.Link, role.GPU
	}
	i := slices.IndexFunc(c.shapes, func(s *shape) bool {
		return s.unbound == unbound && s.kind == kind && s.link == link && s.gpu == gpu && slices.Equal(s.request, role.Request)
	})
	if i >= 0 {
		s := c.shapes[i]
		copy(c.shapes[1:i+1], c.shapes[:i])
		c.shapes[0] = s
		if s.seen >= c.dropped {
			c.catchUp(s)
			return s
		}
		c.shapes = slices.Delete(c.shapes, 0, 1)
	}
	s := c.newShape(&shape{request: slices.Clone(role.Request), unbound: unbound, kind: kind, link: link, gpu: gpu})
	c.shapes = slices.Insert(c.shapes, 0, s)
	c.shapes = c.shapes[:min(len(c.shapes), maxShapes)]
	return s
}

// newShape is the plain pass over all hosts.
func (c *Planner) newShape(s *shape) *shape {
	s.device = c.devicesIn(s.request) > 0
	s.keys, s.seen = make([]key, len(c.free)), c.dropped+len(c.changed)
	look := s.look
	if c.gpus == nil && s.kind == anyKind && s.link == 0 {
		look = s.lookPlainly
	}
	s.sums = c.sumUp(func(first, last int) int64 { return look(c, first, last) })
	if c.keep {
		s.order = newOrdered(s.keys)
	}
	return s
}

func (c *Planner) catchUp(s *shape) {
	for _, h := range c.changed[s.seen-c.dropped:] {
		host := int(h)
		was, is := s.keys[host], s.keyOf(c, host)
		if was == is {
			continue
		}
		s.keys[host] = is
		s.most = max(s.most, is.slots())
		for t := range s.sums {
			s.sums[t][c.domainAt(t, host)] += is.slots() - was.slots()
		}
		if was.slots() > 0 {
			s.order.remove(was)
		}
		if is.slots() > 0 {
			s.order.insert(is)
		}
	}
	s.seen = c.dropped + len(c.changed)
}

// Classes of hosts that the gang does not use yet. Pods without devices first
// fill up where there are none; see room.class.
const (
	classPlain   = 1
	classDevices = 3
)

func (s *shape) classOf(devices int64) int {
	if !s.device && devices > 0 {
		return classDevices
	}
	return classPlain
}

// look finds the keys of a stretch of hosts, and returns how many slots it has.
func (s *shape) look(c *Planner, first, last int) (total int64) {
	for h := first; h < last; h++ {
		k := s.keyOf(c, h)
		s.keys[h] = k
		s.most = max(s.most, k.slots())
		total += k.slots()
	}
	return total
}

// lookPlainly is look where nothing is known of GPUs, and kinds do not matter.
func (s *shape) lookPlainly(c *Planner, first, last int) (total int64) {
	free, devices, most := c.free[first:last], c.devices[first:last], s.most
	for i, keys := 0, s.keys[first:last]; i < len(keys); i++ {
		slots := slotsIn(free[i], s.request, s.unbound)
		keys[i] = newKey(s.classOf(devices[i]), slots, unknownRank(devices[i]), first+i)
		most = max(most, slots)
		total += slots
	}
	s.most = most
	return total
}

func (s *shape) keyOf(c *Planner, host int) key {
	slots, gpus := int64(0), c.GPUs(host)
	if c.isOfKind(host, s.kind) {
		slots = s.slotsOn(c.free[host], gpus)
	}
	return newKey(s.classOf(c.devices[host]), slots, s.rank(gpus, c.devices[host]), host)
}

// slotsOn is how many pods a host has room for that has this left.
func (s *shape) slotsOn(free []int64, gpus HostGPUs) int64 {
	n := slotsIn(free, s.request, s.unbound)
	if n > 0 && s.link > 0 {
		n = gpus.linked(&Role{Request: s.request, Link: s.link, GPU: s.gpu}, free, nil, n)
	}
	return n
}

// rank compares hosts with equally many slots.
func (s *shape) rank(gpus HostGPUs, devices int64) int64 {
	if gpus.Model == nil {
		return unknownRank(devices)
	}
	return offer{gpus: gpus, devices: devices, size: int(s.request[gpus.Resource])}.rank()
}

// slotsIn is how many pods with the request fit into the free vector, as far as
// maxSlots, or unbound if they ask for nothing. What a pod does not ask for does not bind
// it, even where it is overcommitted.
func slotsIn(free, request []int64, unbound int64) int64 {
	n := min(unbound, maxSlots)
	bound := false
	for d, r := range request {
		if r <= 0 {
			continue
		}
		if free[d] < r {
			return 0
		}
		if s := free[d] / r; s < n || !bound {
			n, bound = s, true
		}
	}
	return min(n, maxSlots)
}
