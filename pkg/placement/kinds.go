// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"

	"github.com/tutti-project/tutti/pkg/topology"
)

// Kinds: a uniform role stands on hosts of one kind only. Clusters have few
// kinds, so every choice of one for each uniform role is planned by itself and
// the best decision is taken.

// maxChoices bounds the choices that are planned.
const maxChoices = 64

const (
	anyKind = -1 // stands for no choice
	noKind  = -2 // that the role must have and no host is of
)

// SetKind says what kind of host it is: hosts with different names are not
// alike to uniform roles. All hosts are of kind "" until then.
func (c *Planner) SetKind(host int, name string) {
	if c.kinds == nil {
		if name == "" {
			return
		}
		c.kinds, c.kindNames, c.ofKind = make([]int, len(c.free)), []string{""}, []int{len(c.free)}
	}
	i := slices.Index(c.kindNames, name)
	if i < 0 {
		i = len(c.kindNames)
		c.kindNames, c.ofKind = append(c.kindNames, name), append(c.ofKind, 0)
	}
	if c.kinds[host] != i {
		c.ofKind[c.kinds[host]]--
		c.ofKind[i]++
		c.kinds[host], c.shapes = i, nil
	}
}

// KindOf is the name given to SetKind.
func (c *Planner) KindOf(host int) string {
	if c.kinds == nil {
		return ""
	}
	return c.kindNames[c.kinds[host]]
}

func (c *Planner) isOfKind(host, kind int) bool {
	return kind == anyKind || kind != noKind && c.kinds[host] == kind
}

// choices lists what kinds the roles may be planned with, and says whether that
// is all. A kind with too few slots for a role's minimum is none of them, unless
// there is no other, or what is asked is how much there is room for.
func (c *Planner) choices(p *Problem, small bool) (list [][]int, all bool) {
	list, all = [][]int{nil}, true
	for r := range p.Roles {
		kinds, sibling := c.kindsFor(p, &p.Roles[r], small), siblingOf(p.Roles[:r], &p.Roles[r])
		var longer [][]int
		for _, choice := range list {
			if sibling >= 0 {
				longer = append(longer, append(slices.Clone(choice), choice[sibling]))
				continue
			}
			for _, kind := range kinds {
				longer = append(longer, append(slices.Clone(choice), kind))
			}
		}
		if len(longer) > maxChoices {
			longer, all = longer[:maxChoices], false
		}
		list = longer
	}
	return list, all
}

// siblingOf is the first of these roles that has one kind with the role.
func siblingOf(roles []Role, role *Role) int {
	return slices.IndexFunc(roles, func(other Role) bool {
		return role.Uniform && other.Uniform && role.Family != "" && other.Family == role.Family
	})
}

func (c *Planner) kindsFor(p *Problem, role *Role, small bool) []int {
	switch {
	case !role.Uniform:
		return []int{anyKind}
	case role.Kind != "":
		if i := slices.Index(c.kindNames, role.Kind); i >= 0 {
			return []int{i}
		}
		return []int{noKind}
	case c.kinds == nil:
		return []int{anyKind}
	}
	var present []int // by name: the order in which they came is an accident
	for kind, hosts := range c.ofKind {
		if hosts > 0 {
			present = append(present, kind)
		}
	}
	if len(present) == 1 {
		return []int{anyKind}
	}
	slices.SortFunc(present, func(a, b int) int { return cmp.Compare(c.kindNames[a], c.kindNames[b]) })
	if small {
		return present
	}
	var enough []int
	largest, most := anyKind, int64(-1)
	for _, kind := range present {
		s := c.shapeOf(role, kind)
		slots := s.slots()
		for _, change := range p.Changes {
			if c.isOfKind(change.Host, kind) {
				gpus := c.GPUs(change.Host).after(change, c.free[change.Host])
				slots += s.slotsOn(change.Free, gpus) - s.keys[change.Host].slots()
			}
		}
		if slots >= int64(role.Minimum) {
			enough = append(enough, kind)
		}
		if slots > most {
			largest, most = kind, slots
		}
	}
	if len(enough) == 0 {
		return []int{largest}
	}
	return enough
}

// slots is how many slots the cluster has.
func (s *shape) slots() int64 {
	if len(s.sums) > 0 {
		return s.sums[0][0]
	}
	n := int64(0) // the cluster is a single host
	for _, k := range s.keys {
		n += k.slots()
	}
	return n
}

// betterChoice compares decisions made with different kinds: placements by what
// they are worth, refusals by what is missing.
func (c *Planner) betterChoice(a, b Decision, worthA, worthB objective) bool {
	switch {
	case a.Hosts != nil && b.Hosts != nil:
		return slices.Compare(worthA, worthB) < 0
	case a.Hosts != nil || b.Hosts != nil:
		return a.Hosts != nil
	case len(a.Rejections) == 0 || len(b.Rejections) == 0:
		return false
	}
	return cmp.Or(
		cmp.Compare(a.Rejections[0].missing(), b.Rejections[0].missing()), cmp.Compare(c.absent(a), c.absent(b)),
		cmp.Compare(a.Rejections[0].Barred, b.Rejections[0].Barred), // a kind that the pods may not use is not to be told of
	) < 0
}

// absent is of how many roles the nearest domain has no host of the kind that they
// were planned with: not to be told where another one would do.
func (c *Planner) absent(d Decision) int {
	n, domain := 0, c.tree.Domain(d.Rejections[0].Domain)
	for _, name := range d.Kinds {
		here := name == ""
		for h := domain.First; h < domain.Last && !here; h++ {
			here = c.KindOf(h) == name
		}
		if !here {
			n++
		}
	}
	return n
}

// narrowerOf is the domain of the narrower level; nil is wider than any.
func narrowerOf(a, b *topology.Domain) *topology.Domain {
	if a == nil || b != nil && b.Level > a.Level {
		return b
	}
	return a
}
