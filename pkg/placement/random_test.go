// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tutti-project/tutti/pkg/topology"
)

// TestPlanAgreesWithTheTwin checks the package's promises on small random
// problems, where trying everything is possible.
func TestPlanAgreesWithTheTwin(t *testing.T) {
	n := 20_000
	if testing.Short() {
		n = 2_000
	}
	var fits, extras, joint int
	for seed := range n {
		rng := rand.New(rand.NewPCG(uint64(seed), 7))
		p := randomProblem(rng.IntN)
		d := check(t, p)
		if t.Failed() {
			t.Fatalf("seed %d:\n%s", seed, draw(p))
		}
		if d.Hosts != nil {
			fits++
			for _, ranks := range d.Hosts {
				if slices.Contains(ranks, Unplaced) {
					extras++
					break
				}
			}
		} else if jointly(p, d) {
			joint++
		}
	}
	t.Logf("%d problems: %d fit (%d of them without some extras), %d do not (%d of them only jointly)", n, fits, extras, n-fits, joint)
	if fits < n/5 || n-fits < n/5 || extras < n/50 || joint < n/200 {
		t.Errorf("the problems are too one-sided to prove anything")
	}
}

func FuzzPlanAgreesWithTheTwin(f *testing.F) {
	f.Add([]byte("a small cluster with a small gang"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p := randomProblem(func(n int) int {
			if len(data) == 0 {
				return 0
			}
			v := int(data[0]) % n
			data = data[1:]
			return v
		})
		check(t, p)
		if t.Failed() {
			t.Log(draw(p))
		}
	})
}

// TestPlanIsSafeOnLargerClusters checks what needs no twin: capacity, required
// level, minimums, eligibility, and that equal problems have equal decisions.
func TestPlanIsSafeOnLargerClusters(t *testing.T) {
	fits, no := 0, 0
	for seed := range 300 {
		rng := rand.New(rand.NewPCG(uint64(seed), 13))
		p := benchProblem(50+rng.IntN(400),
			Role{Name: "worker", Pods: 1 + rng.IntN(200), Request: []int64{int64(1+rng.IntN(48)) * 1000, int64(1 + rng.IntN(8)), 1}},
			Role{Name: "ps", Pods: rng.IntN(30), Request: []int64{int64(1+rng.IntN(48)) * 1000, 0, 1}},
			Role{Name: "chief", Pods: rng.IntN(2), Request: []int64{8_000, int64(rng.IntN(9)), 1}})
		for h := range p.Free {
			p.Free[h] = []int64{int64(rng.IntN(97)) * 1000, int64(rng.IntN(10)) - 1, int64(rng.IntN(20))}
		}
		for r := range p.Roles {
			p.Roles[r].Minimum = p.Roles[r].Pods - rng.IntN(2)*rng.IntN(p.Roles[r].Pods+1)
			no := make([]bool, len(p.Free))
			for h := range no {
				no[h] = rng.IntN(4) == 0
			}
			p.Roles[r].Eligible = func(h int) (bool, string) { return !no[h], "drawn" }
		}
		p.Constraint = Constraint{Required: rng.IntN(3), Preferred: rng.IntN(4)}
		d := Plan(askedOnce(t, p))
		if diff := cmp.Diff(d, Plan(p)); diff != "" {
			t.Errorf("equal problems, different decisions:\n%s", diff)
		}
		if d.Hosts == nil {
			no++
		} else {
			fits++
			checkPlaced(t, p, d)
		}
		if d.Bounded || t.Failed() {
			t.Fatalf("seed %d, bounded: %v", seed, d.Bounded)
		}
	}
	t.Logf("%d fit, %d do not", fits, no)
}

// TestClustersWithoutHostsTakeNothing draws gangs of every kind for them.
func TestClustersWithoutHostsTakeNothing(t *testing.T) {
	for seed := range 1_000 {
		p := randomProblem(rand.New(rand.NewPCG(uint64(seed), 53)).IntN)
		p.Tree = topology.New([]topology.Level{{Name: "block", NodeLabels: []string{"block"}}, {Name: "rack", NodeLabels: []string{"rack"}}}, nil)
		p.Free, p.Kinds, p.GPUs, p.Anchors = nil, nil, nil, nil
		pods := 0
		for _, role := range p.Roles {
			pods += min(role.Minimum, role.Pods)
		}
		for _, d := range []Decision{Plan(p), NewPlanner(p.Tree, p.Resources, nil).Plan(p)} {
			if d.Hosts != nil && pods > 0 || d.Bounded || d.Explain(p) == "" {
				t.Fatalf("seed %d: %+v\n%s", seed, d, draw(p))
			}
		}
	}
}

// jointly says whether some domain has room for each role alone, yet not for all.
func jointly(p Problem, d Decision) bool {
	for _, rj := range d.Rejections {
		dom := p.Tree.Domain(rj.Domain)
		alone := true
		for r, role := range p.Roles {
			want := make([]int, len(p.Roles))
			want[r] = min(role.Minimum, role.Pods)
			alone = alone && twinFits(p, want, twinHosts(dom.First, dom.Last))
		}
		if alone {
			return true
		}
	}
	return false
}

// randomProblem draws a problem of at most 7 hosts and 3 roles; below(n) draws
// from 0 to n-1.
func randomProblem(below func(int) int) Problem {
	levels := []topology.Level{{Name: "block", NodeLabels: []string{"block"}}, {Name: "rack", NodeLabels: []string{"rack"}}}
	hosts := make([]topology.HostLabels, 1+below(7))
	for i := range hosts {
		hosts[i].Name = fmt.Sprintf("n%d", i)
		hosts[i].Labels = make(map[string]string)
		for _, l := range levels {
			if v := below(4); v > 0 {
				hosts[i].Labels[l.Name] = fmt.Sprint(v)
			}
		}
	}
	p := Problem{Tree: topology.New(levels, hosts), Resources: []string{"cpu", "memory", "vendor/gpu"}[below(3):]}
	for range hosts {
		free := make([]int64, len(p.Resources))
		for d := range free {
			free[d] = int64(below(7)) - 1
		}
		p.Free = append(p.Free, free)
	}
	return randomGang(below, p)
}

// randomGang draws another gang for the problem's cluster.
func randomGang(below func(int) int, p Problem) Problem {
	p.Roles, p.Anchors, p.Constraint = nil, nil, Constraint{}
	p.Kinds = nil
	if below(4) == 0 {
		for range p.Free {
			p.Kinds = append(p.Kinds, []string{"", "old", "new"}[below(3)])
		}
	}
	p.GPUs = nil
	for r := range 1 + below(3) {
		p.Roles = append(p.Roles, randomRole(below, string(rune('a'+r)), len(p.Resources), len(p.Free)))
	}
	drawFamily(below, p)
	last := len(p.Tree.Levels()) - 1
	if below(2) == 0 {
		p.Constraint.Required = below(last + 1)
	}
	if below(2) == 0 {
		p.Constraint.Preferred = below(last + 1)
	}
	if below(4) == 0 {
		p.Constraint.SliceSize = 1 + below(3)
		p.Constraint.SliceLevel = below(last + 1)
	}
	if below(6) == 0 {
		for range 1 + below(2) {
			p.Anchors = append(p.Anchors, below(len(p.Free)))
		}
	}
	if below(3) == 0 {
		p.GPUs = randomGPUs(below, p.Free, len(p.Resources)-1)
		drawLinks(below, p)
	}
	return p
}

// drawFamily makes some roles one family, and some of its pods run on a kind of host,
// perhaps one of which none is left.
func drawFamily(below func(int) int, p Problem) {
	if p.Kinds != nil && below(2) == 0 {
		for r := range p.Roles {
			p.Roles[r].Family = "all"
		}
	}
	if below(8) > 0 {
		return
	}
	p.Roles[0].Kind = []string{"old", "new", "gone"}[below(3)]
	for r := range p.Roles {
		if p.Roles[r].Family != "" {
			p.Roles[r].Kind = p.Roles[0].Kind
		}
	}
}

func drawLinks(below func(int) int, p Problem) {
	for r := range p.Roles {
		if role := &p.Roles[r]; below(4) > 0 {
			role.GPU = len(p.Resources) - 1
			role.Link = topology.Demand(below(4))
			role.Request[role.GPU] = int64(1 + below(3))
		}
	}
}

func randomRole(below func(int) int, name string, resources, hosts int) Role {
	role := Role{Name: name, Pods: below(5), Request: make([]int64, resources)}
	role.Minimum = role.Pods
	if below(3) == 0 {
		role.Minimum = below(role.Pods + 1)
	}
	for d := range role.Request {
		role.Request[d] = int64(below(3))
	}
	if below(2) == 0 {
		role.Request[resources-1] = 0 // the devices
	}
	role.Uniform, role.Serves = below(2) == 0, below(3) == 0
	if below(3) == 0 {
		no := make([]bool, hosts)
		for h := range no {
			no[h] = below(3) == 0
		}
		role.Eligible = func(h int) (bool, string) { return !no[h], "drawn" }
	}
	return role
}

// draw prints a problem for the log of a failed test.
func draw(p Problem) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v %+v anchors %v\n", p.Resources, p.Constraint, p.Anchors)
	for h, free := range p.Free {
		fmt.Fprintf(&b, "host %d: %s %v free %v\n", h, p.Tree.Describe(p.Tree.DomainOf(h, len(p.Tree.Levels())-1)), p.Kinds, free)
	}
	for h, g := range p.GPUs {
		fmt.Fprintf(&b, "host %d: GPUs %s of %d, the planner picks: %t\n", h, g.Free, slices.Index(boards, g.Model), g.PlannerPicks)
	}
	for _, r := range p.Roles {
		fmt.Fprintf(&b, "role %s: %d pods, minimum %d, uniform %t %q, request %v, link %s", r.Name, r.Pods, r.Minimum, r.Uniform, r.Kind, r.Request, r.Link)
		for h := range p.Free {
			if !twinEligible(r, h) {
				fmt.Fprintf(&b, " not %d", h)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}
