// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tutti-project/tutti/pkg/topology"
)

// TestScenarios runs the scripts in testdata: the planner's specification in
// text. `go test ./pkg/placement -run Scenarios -rewrite` writes the answers
// anew; commit the difference only if you understand it.
//
//	cluster levels=(zone, rack)      one line per domain, path and hosts:
//	zone-a/r1: n1(8) n[2-4](4)       name(free GPUs); cpu=64 memory=256 pods=110
//	zone-a: n5(0 cpu=8)              unless said otherwise
//	not n2 n3: taint gpu=maintenance hosts that are not eligible, and why
//	kind n4 n5: A100                 hosts of another kind
//	links n4: dgx-1v free=0,3,7      GPUs as in topology's testdata/hosts; picks=planner
//	                                 where pods get what the planner picks
//
//	place gang=g [within=level] [prefer=level] [slices=(4, rack)] [anchors=(n1, n2)] [keep] [evict]
//	worker pods=4 [min=2] [gpu=8] [link=nvlink] [cpu=1] [memory=1] [on=(n1, n2)] [mixed]
//
// With evict, gangs that run may have to go: those that a cluster says are there,
//
//	runs low n1 n2: gpu=4 priority=1 [gangs=1] [violations=1] [started=7]
//
// which is one pod of 4 GPUs on each host. Roles that ask for GPUs are uniform, but for mixed ones. keep takes the gang's room away from the gangs after it.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var s scenario
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "cluster":
				s = newScenario(t, d)
				return ""
			case "place":
				return s.place(t, d)
			default:
				d.Fatalf(t, "unknown command %q", d.Cmd)
				return ""
			}
		})
	})
}

var scenarioResources = []string{"cpu", "memory", "pods", "nvidia.com/gpu"}

type scenario struct {
	tree *topology.Tree
	free [][]int64
	not  map[string]string // host: why it is not eligible
	kind map[string]string // host
	runs []Victim

	running [][2]string // lines that say what runs
	links   [][2]string // and how GPUs are linked
	gpus    []HostGPUs
}

func newScenario(t *testing.T, d *datadriven.TestData) scenario {
	s := scenario{not: make(map[string]string), kind: make(map[string]string)}
	var levels []topology.Level
	for _, arg := range d.CmdArgs {
		for _, name := range arg.Vals {
			levels = append(levels, topology.Level{Name: name, NodeLabels: []string{name}})
		}
	}
	var hosts []topology.HostLabels
	free := make(map[string][]int64)
	for line := range strings.Lines(d.Input) {
		left, right, _ := strings.Cut(strings.TrimSpace(line), ":")
		if s.remark(left, strings.TrimSpace(right)) {
			continue
		}
		labels := make(map[string]string)
		for i, value := range strings.Split(left, "/") {
			if value != "" && value != "-" {
				labels[levels[i].Name] = value
			}
		}
		for item := range strings.SplitSeq(right, ")") {
			name, amounts, ok := strings.Cut(strings.TrimSpace(item), "(")
			if !ok {
				continue
			}
			for _, name := range expand(name) {
				hosts = append(hosts, topology.HostLabels{Name: name, Labels: labels})
				vector := []int64{64_000, 256, 110, 0}
				for i, field := range strings.Fields(amounts) {
					if i == 0 {
						field = "gpu=" + field
					}
					setAmount(t, vector, field)
				}
				free[name] = vector
			}
		}
	}
	s.tree = topology.New(levels, hosts)
	for h := range s.tree.Hosts() {
		s.free = append(s.free, free[s.tree.HostName(h)])
	}
	s.furnish(t)
	return s
}

// furnish adds what the remarks say of hosts.
func (s *scenario) furnish(t *testing.T) {
	for _, line := range s.links {
		s.link(t, strings.Fields(line[0]), strings.Fields(line[1]))
	}
	for _, line := range s.running {
		s.run(t, strings.Fields(line[0]), strings.Fields(line[1]))
	}
}

// run adds something that runs: its name and hosts, and what it has on each.
func (s *scenario) run(t *testing.T, names, fields []string) {
	v := Victim{Name: names[0], Cost: Cost{Pods: len(names) - 1}}
	freed := []int64{1000, 0, 1, 0}
	for _, field := range fields {
		key, value, _ := strings.Cut(field, "=")
		n, _ := strconv.Atoi(value)
		switch key {
		case "priority":
			v.Cost.Priority = n
		case "gangs":
			v.Cost.Gangs = n
		case "violations":
			v.Cost.Violations = n
		case "started":
			v.Cost.Started = int64(n)
		default:
			setAmount(t, freed, field)
		}
	}
	for _, h := range s.hosts(t, names[1:]) {
		v.Frees = append(v.Frees, Change{Host: h, Free: freed})
		for d, n := range freed {
			s.free[h][d] -= n
		}
	}
	s.runs = append(s.runs, v)
}

// remark reads a line that says something of hosts drawn before.
func (s *scenario) remark(left, right string) bool {
	if what, ok := strings.CutPrefix(left, "runs "); ok {
		s.running = append(s.running, [2]string{what, right})
		return true
	}
	if what, ok := strings.CutPrefix(left, "links "); ok {
		s.links = append(s.links, [2]string{what, right})
		return true
	}
	for word, of := range map[string]map[string]string{"not ": s.not, "kind ": s.kind} {
		if names, ok := strings.CutPrefix(left, word); ok {
			for name := range strings.FieldsSeq(names) {
				of[name] = right
			}
			return true
		}
	}
	return false
}

// expand turns n[2-4] into n2, n3 and n4.
func expand(name string) []string {
	prefix, rest, ok := strings.Cut(name, "[")
	if !ok {
		return []string{name}
	}
	from, to, _ := strings.Cut(strings.TrimSuffix(rest, "]"), "-")
	first, _ := strconv.Atoi(from)
	last, _ := strconv.Atoi(to)
	var names []string
	for i := first; i <= last; i++ {
		names = append(names, prefix+strconv.Itoa(i))
	}
	return names
}

// setAmount reads key=value into a vector; cpu is in cores, memory in bytes.
func setAmount(t *testing.T, vector []int64, field string) {
	name, value, _ := strings.Cut(field, "=")
	n, err := strconv.ParseInt(value, 10, 64)
	switch i := slices.Index([]string{"cpu", "memory", "pods", "gpu"}, name); {
	case err != nil || i < 0:
		t.Fatalf("bad amount %q", field)
	case i == 0:
		vector[0] = n * 1000
	default:
		vector[i] = n
	}
}

func (s *scenario) place(t *testing.T, d *datadriven.TestData) string {
	p := Problem{Tree: s.tree, Resources: scenarioResources, Free: s.free, GPUs: s.gpus}
	for h := range s.tree.Hosts() {
		p.Kinds = append(p.Kinds, s.kind[s.tree.HostName(h)])
	}
	var gang string
	for _, arg := range d.CmdArgs {
		switch arg.Key {
		case "gang":
			gang = arg.Vals[0]
		case "within":
			p.Constraint.Required = s.level(t, arg.Vals[0])
		case "prefer":
			p.Constraint.Preferred = s.level(t, arg.Vals[0])
		case "anchors":
			p.Anchors = s.hosts(t, arg.Vals)
		case "slices":
			p.Constraint.SliceSize, _ = strconv.Atoi(arg.Vals[0])
			p.Constraint.SliceLevel = s.level(t, arg.Vals[1])
		case "keep", "evict":
		default:
			d.Fatalf(t, "unknown argument %q", arg.Key)
		}
	}
	for line := range strings.Lines(d.Input) {
		p.Roles = append(p.Roles, s.role(t, strings.TrimSpace(line)))
	}
	decision, eviction := Plan(p), Eviction{}
	if d.HasArg("evict") {
		decision, eviction = PlanWithVictims(p, s.runs)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", gang, decision.Explain(p))
	for _, v := range eviction.Victims {
		fmt.Fprintf(&b, "evicted: %s\n", s.runs[v].Name)
	}
	for r := range decision.Hosts {
		fmt.Fprintf(&b, "%s: %s\n", p.Roles[r].Name, s.ranks(decision.Hosts[r]))
		if decision.GPUs != nil {
			fmt.Fprintf(&b, "%s has GPUs %s\n", p.Roles[r].Name, sets(decision.GPUs[r]))
		}
	}
	if d.HasArg("keep") {
		s.keep(p, decision)
	}
	return b.String()
}

func (s *scenario) keep(p Problem, decision Decision) {
	for r, ranks := range decision.Hosts {
		for rank, h := range ranks {
			if h != Unplaced {
				twinTake(p.Roles[r], s.free[h], 1)
				if decision.GPUs != nil {
					s.gpus[h].Free &^= decision.GPUs[r][rank]
				}
			}
		}
	}
}

func (s *scenario) level(t *testing.T, name string) int {
	level, ok := s.tree.LevelIndex(name)
	if !ok {
		t.Fatalf("no level %q", name)
	}
	return level
}

func (s *scenario) hosts(t *testing.T, names []string) []int {
	var hosts []int
	for _, name := range names {
		h, ok := s.tree.HostIndex(name)
		if !ok {
			t.Fatalf("no host %q", name)
		}
		hosts = append(hosts, h)
	}
	return hosts
}

func (s *scenario) role(t *testing.T, line string) Role {
	name, args, err := datadriven.ParseLine(line)
	if err != nil {
		t.Fatal(err)
	}
	role := Role{Name: name, Minimum: -1, Request: []int64{1000, 0, 1, 0}}
	var on []string
	mixed := false
	for _, arg := range args {
		switch arg.Key {
		case "pods":
			role.Pods, _ = strconv.Atoi(arg.Vals[0])
		case "min":
			role.Minimum, _ = strconv.Atoi(arg.Vals[0])
		case "on":
			on = arg.Vals
		case "mixed":
			mixed = true
		case "link":
			role.GPU = 3
			if role.Link, err = topology.ParseDemand(arg.Vals[0]); err != nil {
				t.Fatal(err)
			}
		default:
			setAmount(t, role.Request, arg.Key+"="+arg.Vals[0])
		}
	}
	role.Serves = name == "ps"
	role.Uniform = role.Request[3] > 0 && !mixed
	if role.Minimum < 0 {
		role.Minimum = role.Pods
	}
	role.Eligible = func(h int) (bool, string) {
		name := s.tree.HostName(h)
		if reason, ok := s.not[name]; ok {
			return false, reason
		}
		return on == nil || slices.Contains(on, name), "node selector"
	}
	return role
}

// ranks: "0-3 n1, 4 n2, 5 -".
func (s *scenario) ranks(hosts []int) string {
	var parts []string
	for first := 0; first < len(hosts); {
		last := first
		for last+1 < len(hosts) && hosts[last+1] == hosts[first] {
			last++
		}
		name := "-"
		if hosts[first] != Unplaced {
			name = s.tree.HostName(hosts[first])
		}
		ranks := strconv.Itoa(first)
		if last > first {
			ranks += "-" + strconv.Itoa(last)
		}
		parts = append(parts, ranks+" "+name)
		first = last + 1
	}
	return strings.Join(parts, ", ")
}
