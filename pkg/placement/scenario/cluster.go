// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tutti-project/tutti/pkg/placement"
	"github.com/tutti-project/tutti/pkg/topology"
)

// maxHosts bounds what n[1-1000000] can draw.
const maxHosts = 10_000

// cluster is what a step has drawn, less what gangs keep.
type cluster struct {
	tree  *topology.Tree
	free  [][]int64
	not   []string // [host] why it is not eligible
	kinds []string // [host]
	gpus  []placement.HostGPUs
	runs  []placement.Victim
	empty []placement.Change // [host] what it has with no pod on it; nil where nobody says
}

// drawing is a cluster whose tree does not stand yet.
type drawing struct {
	levels []topology.Level
	hosts  []topology.HostLabels
	free   map[string][]int64
}

// remarks are what may be said of hosts that are drawn before or after.
var remarks = []struct {
	word  string
	apply func(c *cluster, l line, names []string, text string, boards Boards) error
}{
	{"not", (*cluster).exclude},
	{"kind", (*cluster).setKind},
	{"links", (*cluster).link},
	{"empty", (*cluster).setEmpty},
	{"runs", (*cluster).run},
}

func readCluster(words []word, s step, boards Boards) (*cluster, error) {
	d := drawing{free: make(map[string][]int64)}
	for _, w := range words {
		if w.key != "levels" {
			return nil, at(s.command.number, "%q is not known here; write cluster levels=(zone, rack), the widest first", w.key)
		}
		for _, name := range w.values {
			d.levels = append(d.levels, topology.Level{Name: name, NodeLabels: []string{name}})
		}
	}
	var said []line
	for _, l := range s.body {
		if remarkOf(l) >= 0 {
			said = append(said, l)
		} else if err := d.addDomain(l); err != nil {
			return nil, err
		}
	}
	c := &cluster{tree: topology.New(d.levels, d.hosts)}
	for h := range c.tree.Hosts() {
		c.free = append(c.free, d.free[c.tree.HostName(h)])
	}
	c.not, c.kinds = make([]string, len(c.free)), make([]string, len(c.free))
	// Links first: they say which GPUs are free before anything runs on them.
	slices.SortStableFunc(said, func(a, b line) int { return remarkOf(a) - remarkOf(b) })
	for _, l := range said {
		left, right, _ := strings.Cut(l.text, ":")
		if err := remarks[remarkOf(l)].apply(c, l, strings.Fields(left)[1:], strings.TrimSpace(right), boards); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// remarkOf is the remark that the line is, or -1.
func remarkOf(l line) int {
	for i, r := range remarks {
		if strings.HasPrefix(l.text, r.word+" ") {
			return i
		}
	}
	return -1
}

// addDomain reads "zone-a/r1: n1(8) n[2-4](4 cpu=8)".
func (d *drawing) addDomain(l line) error {
	path, rest, ok := strings.Cut(l.text, ":")
	if !ok {
		return at(l.number, "%q names no hosts; write path: host(GPUs) host(GPUs), or a remark: not, kind, links, empty or runs", l.text)
	}
	labels := make(map[string]string)
	values := strings.Split(path, "/")
	for i, value := range values {
		if value == "" || value == "-" {
			continue
		}
		if i >= len(d.levels) {
			return at(l.number, "the path %q is longer than the %d levels", path, len(d.levels))
		}
		labels[d.levels[i].Name] = value
	}
	for rest = strings.TrimSpace(rest); rest != ""; rest = strings.TrimSpace(rest) {
		item, after, closed := strings.Cut(rest, ")")
		name, fields, opened := strings.Cut(item, "(")
		if !closed || !opened || name == "" || strings.ContainsAny(name, " ,") {
			return at(l.number, "%q is no host; write its name and free GPUs: n1(8)", item)
		}
		if err := d.addHosts(l, name, fields, labels); err != nil {
			return err
		}
		rest = after
	}
	return nil
}

func (d *drawing) addHosts(l line, name, fields string, labels map[string]string) error {
	vector := []int64{64 * millis, 256, 110, 0}
	for i, field := range strings.Fields(fields) {
		if i == 0 && !strings.Contains(field, "=") {
			field = "gpu=" + field
		}
		key, value, _ := strings.Cut(field, "=")
		if err := l.setAmount(vector, word{key, []string{value}}, -maxAmount); err != nil {
			return err
		}
	}
	names, err := l.expand(name)
	if err != nil {
		return err
	}
	for _, name := range names {
		if d.free[name] != nil {
			return at(l.number, "host %s is drawn twice", name)
		}
		if len(d.hosts) == maxHosts {
			return at(l.number, "more than %d hosts", maxHosts)
		}
		d.hosts = append(d.hosts, topology.HostLabels{Name: name, Labels: labels})
		d.free[name] = slices.Clone(vector)
	}
	return nil
}

// expand turns n[2-4] into n2, n3 and n4.
func (l line) expand(name string) ([]string, error) {
	prefix, rest, ok := strings.Cut(name, "[")
	if !ok {
		return []string{name}, nil
	}
	from, to, _ := strings.Cut(strings.TrimSuffix(rest, "]"), "-")
	first, err := strconv.Atoi(from)
	last, err2 := strconv.Atoi(to)
	if err != nil || err2 != nil || first < 0 || last < first || last-first >= maxHosts {
		return nil, at(l.number, "%q is no range of at most %d hosts; write n[1-4]", name, maxHosts)
	}
	var names []string
	for i := first; i <= last; i++ {
		names = append(names, prefix+strconv.Itoa(i))
	}
	return names, nil
}

func (c *cluster) hosts(l line, names []string) ([]int, error) {
	var hosts []int
	for _, name := range names {
		h, ok := c.tree.HostIndex(name)
		if !ok {
			return nil, at(l.number, "no host is named %q", name)
		}
		hosts = append(hosts, h)
	}
	return hosts, nil
}

func (c *cluster) level(l line, name string) (int, error) {
	level, ok := c.tree.LevelIndex(name)
	if !ok {
		return 0, at(l.number, "no level is named %q; write one of the cluster's levels, or host", name)
	}
	return level, nil
}

func (c *cluster) exclude(l line, names []string, reason string, _ Boards) error {
	hosts, err := c.hosts(l, names)
	if err == nil && reason == "" {
		return at(l.number, "no reason; write it behind the colon")
	}
	for _, h := range hosts {
		c.not[h] = reason
	}
	return err
}

func (c *cluster) setKind(l line, names []string, kind string, _ Boards) error {
	hosts, err := c.hosts(l, names)
	for _, h := range hosts {
		c.kinds[h] = kind
	}
	return err
}

// link reads what is said of hosts' GPUs: the board, free=0,3 and picks=planner.
func (c *cluster) link(l line, names []string, text string, boards Boards) error {
	hosts, err := c.hosts(l, names)
	if err != nil {
		return err
	}
	words, err := line{l.number, text}.words()
	if err != nil {
		return err
	}
	g := placement.HostGPUs{Resource: gpu}
	if g.Model, err = boards(words[0].key); err != nil {
		return at(l.number, "board %s: %w", words[0].key, err)
	}
	var free topology.Set
	for _, w := range words[1:] {
		switch {
		case w.key == "picks" && len(w.values) == 1 && (w.values[0] == "planner" || w.values[0] == "plugin"):
			g.PlannerPicks = w.values[0] == "planner"
		case w.key == "free":
			for _, value := range w.values {
				n, err := l.integer(word{w.key, []string{value}}, 0, int64(g.Model.Count()-1))
				if err != nil {
					return err
				}
				free |= 1 << n
			}
		default:
			return at(l.number, "%q is not known here; write a board, and if need be free=0,3 and picks=planner or picks=plugin", w.key)
		}
	}
	if c.gpus == nil {
		c.gpus = make([]placement.HostGPUs, len(c.free))
	}
	for _, h := range hosts {
		g.Free = free
		if free == 0 {
			g.Free = g.Model.All() & (1<<min(max(0, c.free[h][gpu]), 32) - 1)
		}
		c.gpus[h] = g
	}
	return nil
}

// setEmpty reads what hosts would have with no pod on them. Once it is said of one,
// of the others what is free now is meant.
func (c *cluster) setEmpty(l line, names []string, text string, _ Boards) error {
	hosts, err := c.hosts(l, names)
	if err != nil {
		return err
	}
	words, err := line{l.number, text}.words()
	if err != nil {
		return err
	}
	if c.empty == nil {
		for h, free := range c.free {
			empty := placement.Change{Host: h, Free: slices.Clone(free)}
			if c.gpus != nil {
				empty.GPUs = c.gpus[h].Free
			}
			c.empty = append(c.empty, empty)
		}
	}
	for _, h := range hosts {
		for _, w := range words {
			if err := l.setAmount(c.empty[h].Free, w, 0); err != nil {
				return err
			}
		}
		if c.gpus != nil && c.gpus[h].Model != nil {
			c.empty[h].GPUs = c.gpus[h].Model.All() & (1<<min(max(0, c.empty[h].Free[gpu]), 32) - 1)
		}
	}
	return nil
}

// run adds something that runs: its name and hosts, and what it has on each.
func (c *cluster) run(l line, names []string, text string, _ Boards) error {
	if len(names) < 2 {
		return at(l.number, "what runs has a name and hosts; write runs low n1 n2: gpu=4")
	}
	hosts, err := c.hosts(l, names[1:])
	if err != nil {
		return err
	}
	v := placement.Victim{Name: names[0], Cost: placement.Cost{Pods: len(hosts)}}
	freed := []int64{millis, 0, 1, 0}
	counts := map[string]*int{"priority": &v.Cost.Priority, "gangs": &v.Cost.Gangs, "violations": &v.Cost.Violations}
	words, err := line{l.number, text}.words()
	if err != nil {
		return err
	}
	for _, w := range words {
		var n int64
		switch {
		case counts[w.key] != nil:
			n, err = l.integer(w, 0, maxAmount)
			*counts[w.key] = int(n)
		case w.key == "started":
			v.Cost.Started, err = l.integer(w, 0, maxAmount)
		default:
			err = l.setAmount(freed, w, 0)
		}
		if err != nil {
			return err
		}
	}
	for i, h := range hosts {
		if slices.Contains(hosts[:i], h) {
			return at(l.number, "%s runs twice on %s; write each host once", v.Name, c.tree.HostName(h))
		}
		v.Frees = append(v.Frees, placement.Change{Host: h, Free: freed})
		for d, n := range freed {
			c.free[h][d] -= n
		}
	}
	c.runs = append(c.runs, v)
	return nil
}
