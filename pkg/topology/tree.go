// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package topology answers: which hosts stand together, and how closely?
//
// A Tree is built once from the nodes' labels and never changes; many plans
// read it at once. Levels run from wide to narrow:
//
//	0 cluster            one domain, all hosts
//	1 …                  the configured levels
//	  zone-a   zone-b
//	  r1  r2   r1        two different racks are named r1
//	n host               one domain per host
//
// Hosts have dense indexes in tree order, so every domain is the range of
// hosts [First, Last) and a per-host number sums up by ranges.
//
// A domain's identity is its full path, never a label's bare value. A host
// that lacks a level's label belongs, at that level, to the domain of the next
// narrower level that it does carry, and if it carries none it stands alone:
// hosts share a domain only where labels say so. So in a cluster without zone
// labels each spine counts as a zone of its own, and nothing below is torn.
//
// The package knows nothing of capacity, pods or Kubernetes objects.
package topology

import (
	"cmp"
	"slices"
)

// HostLabels is what a tree needs to know of a node. Names are unique.
type HostLabels struct {
	Name   string
	Labels map[string]string
}

// Domain is one member of a level. IDs are dense over the whole tree, level by
// level from the cluster (0), in tree order within a level.
type Domain struct {
	ID          int
	Level       int
	Parent      int // ID; the cluster is its own parent
	First, Last int // its hosts, as the range [First, Last)
	Name        string
	Path        string // names from the widest level down, for people; not an identity
}

// Tree is an immutable view of the cluster's levels, domains and hosts.
type Tree struct {
	levels  []Level // cluster … host
	hosts   []string
	index   map[string]int
	domains []Domain
	start   []int     // start[l] is the ID of level l's first domain; one more entry ends the last level
	of      [][]int32 // [level][host] is the ID of the host's domain
	carried []bool    // [level]: some host carries a label of it
}

// New builds the tree of the hosts. The order of hosts does not matter.
func New(levels []Level, hosts []HostLabels) *Tree {
	t := &Tree{index: make(map[string]int, len(hosts))}
	t.levels = append(t.levels, Level{Name: Cluster})
	t.levels = append(t.levels, levels...)
	t.levels = append(t.levels, Level{Name: Host, NodeLabels: []string{hostnameLabel}})

	places := make([]place, len(hosts))
	for i, h := range hosts {
		places[i] = newPlace(levels, h)
	}
	slices.SortFunc(places, comparePlaces)
	t.carried = make([]bool, len(t.levels))
	t.carried[0], t.carried[len(t.levels)-1] = true, true
	for i, p := range places {
		t.hosts = append(t.hosts, p.host)
		t.index[p.host] = i
		for l, s := range p.steps[:len(levels)] {
			t.carried[l+1] = t.carried[l+1] || s.level == l
		}
	}
	t.addLevel(0, []Domain{{Last: len(hosts), Name: Cluster}})
	for level := 1; level < len(t.levels); level++ {
		t.addLevel(level, t.split(level, places))
	}
	t.start = append(t.start, len(t.domains))
	return t
}

// addLevel numbers the level's domains and records which host is in which.
func (t *Tree) addLevel(level int, domains []Domain) {
	t.start = append(t.start, len(t.domains))
	of := make([]int32, len(t.hosts))
	for _, d := range domains {
		d.ID, d.Level = len(t.domains), level
		t.domains = append(t.domains, d)
		for h := d.First; h < d.Last; h++ {
			of[h] = int32(d.ID)
		}
	}
	t.of = append(t.of, of)
}

// split cuts the domains of the level above wherever the places differ.
func (t *Tree) split(level int, places []place) []Domain {
	var domains []Domain
	for _, parent := range t.Domains(level - 1) {
		for first := parent.First; first < parent.Last; {
			s := places[first].steps[level-1]
			last := first + 1
			for last < parent.Last && places[last].steps[level-1] == s {
				last++
			}
			d := Domain{Parent: parent.ID, First: first, Last: last, Name: s.value, Path: parent.Path}
			if level == 1 || places[first].steps[level-2] != s {
				d.Path = joinPath(parent.Path, s.value)
			}
			domains = append(domains, d)
			first = last
		}
	}
	return domains
}

func joinPath(parent, name string) string {
	if parent == "" {
		return name
	}
	return parent + "/" + name
}

// place is a host's way down the tree: one step per configured level, then the
// host itself.
type place struct {
	host  string
	steps []step
}

// step is a host's place at one level: the value of the first level, from this
// one down, that the host carries. Comparing the level as well keeps a label's
// value apart from an equal value or host name that stands in for a missing one.
type step struct {
	level int
	value string
}

func newPlace(levels []Level, h HostLabels) place {
	steps := make([]step, len(levels)+1)
	steps[len(levels)] = step{level: len(levels), value: h.Name}
	for l, level := range slices.Backward(levels) {
		steps[l] = steps[l+1]
		for _, key := range level.NodeLabels {
			if v := h.Labels[key]; v != "" {
				steps[l] = step{level: l, value: v}
				break
			}
		}
	}
	return place{host: h.Name, steps: steps}
}

func comparePlaces(a, b place) int {
	return slices.CompareFunc(a.steps, b.steps, func(x, y step) int {
		return cmp.Or(cmp.Compare(x.level, y.level), CompareNatural(x.value, y.value))
	})
}
