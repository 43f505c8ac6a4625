// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package topology

import "slices"

// Hosts is the number of hosts; their indexes are 0 to Hosts()-1.
func (t *Tree) Hosts() int { return len(t.hosts) }

// HostName returns the name of the host with this index.
func (t *Tree) HostName(host int) string { return t.hosts[host] }

// HostIndex returns the index of the host with this name.
func (t *Tree) HostIndex(name string) (int, bool) {
	i, ok := t.index[name]
	return i, ok
}

// Levels returns the levels' names, from the cluster to the host.
func (t *Tree) Levels() []string {
	names := make([]string, len(t.levels))
	for i, l := range t.levels {
		names[i] = l.Name
	}
	return names
}

// LevelIndex finds a level by its name, or else by one of its node labels.
func (t *Tree) LevelIndex(nameOrLabelKey string) (int, bool) {
	i := slices.IndexFunc(t.levels, func(l Level) bool { return l.Name == nameOrLabelKey })
	if i < 0 {
		i = slices.IndexFunc(t.levels, func(l Level) bool { return slices.Contains(l.NodeLabels, nameOrLabelKey) })
	}
	return i, i >= 0
}

// NodeLabels returns the labels of nodes that may carry the level, and whether
// any host does. The cluster and the hosts themselves need no label.
func (t *Tree) NodeLabels(level int) (labels []string, carried bool) {
	return t.levels[level].NodeLabels, t.carried[level]
}

// Domains returns the level's domains in tree order. Callers must not write to it.
func (t *Tree) Domains(level int) []Domain {
	first, last := t.start[level], len(t.domains)
	if level+1 < len(t.start) {
		last = t.start[level+1]
	}
	return t.domains[first:last:last]
}

// Domain returns the domain with this ID.
func (t *Tree) Domain(id int) Domain { return t.domains[id] }

// DomainOf returns the ID of the level's domain that the host is in.
func (t *Tree) DomainOf(host, level int) int { return int(t.of[level][host]) }

// IsNamed tells whether a host carries the domain's own label: else a narrower domain,
// or a host, stands in for it.
func (t *Tree) IsNamed(id int) bool {
	d := t.domains[id]
	if d.Level == 0 || d.Level == len(t.levels)-1 {
		return true
	}
	return t.domains[t.of[d.Level+1][d.First]].Path != d.Path
}

// Describe names a domain for people: "rack r1 (zone-a/r1)".
func (t *Tree) Describe(id int) string {
	d := t.domains[id]
	switch {
	case d.Level == 0:
		return "the " + Cluster
	case d.Path == d.Name:
		return t.levels[d.Level].Name + " " + d.Name
	default:
		return t.levels[d.Level].Name + " " + d.Name + " (" + d.Path + ")"
	}
}
