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
	device := len(p.Resources) - 1
	for range hosts {
		free := make([]int64, len(p.Resources))
		for d := range free {
			free[d] = int64(below(7)) - 1
		}
		p.Free = append(p.Free, free)
	}
	for r := range 1 + below(3) {
		role := Role{Name: string(rune('a' + r)), Pods: below(5), Request: make([]int64, len(p.Resources))}
		role.Minimum = role.Pods
		if below(3) == 0 {
			role.Minimum = below(role.Pods + 1)
		}
		for d := range role.Request {
			role.Request[d] = int64(below(3))
		}
		if below(2) == 0 {
			role.Request[device] = 0
		}
		if below(3) == 0 {
			no := make([]bool, len(hosts))
			for h := range no {
				no[h] = below(3) == 0
			}
			role.Eligible = func(h int) (bool, string) { return !no[h], "drawn" }
		}
		p.Roles = append(p.Roles, role)
	}
	last := len(p.Tree.Levels()) - 1
	if below(2) == 0 {
		p.Constraint.Required = below(last + 1)
	}
	if below(2) == 0 {
		p.Constraint.Preferred = below(last + 1)
	}
	if below(6) == 0 {
		for range 1 + below(2) {
			p.Anchors = append(p.Anchors, below(len(hosts)))
		}
	}
	return p
}

// check plans, and compares the decision with the promises and with the twin.
func check(t *testing.T, p Problem) Decision {
	t.Helper()
	before := fmt.Sprint(p.Free)
	d := Plan(askedOnce(t, p))
	if diff := cmp.Diff(d, Plan(p)); diff != "" {
		t.Errorf("equal problems, different decisions:\n%s", diff)
	}
	if fmt.Sprint(p.Free) != before {
		t.Error("Plan wrote to the problem")
	}
	if d.Bounded {
		t.Error("the limit was reached on a small problem")
	}
	if d.Explain(p) == "" {
		t.Error("no explanation")
	}
	full, minimum := make([]int, len(p.Roles)), make([]int, len(p.Roles))
	for r, role := range p.Roles {
		full[r], minimum[r] = role.Pods, role.Minimum
	}
	last := len(p.Tree.Levels()) - 1
	_, fits := twinLevel(p, minimum, last)
	// A gang without pods stands nowhere, wherever its anchors are.
	if fits = fits || !slices.ContainsFunc(full, positive); fits != (d.Hosts != nil) {
		t.Errorf("placed: %v, but an assignment exists: %v", d.Hosts != nil, fits)
		return d
	}
	if !fits {
		checkRejections(t, p, d, minimum)
		return d
	}
	left := checkPlaced(t, p, d)
	start := last
	if p.Constraint.Preferred > 0 {
		start = max(p.Constraint.Preferred, p.Constraint.Required)
	}
	level, whole := twinLevel(p, full, start)
	switch {
	case !slices.ContainsFunc(full, positive):
	case whole:
		if d.Level < level {
			t.Errorf("placed at level %d, but a domain of level %d holds the gang", d.Level, level)
		}
		checkOneRole(t, p, d, full, level)
	default:
		checkExtras(t, p, d, left)
	}
	return d
}

func positive(n int) bool { return n > 0 }

// askedOnce makes asking for the same role and host twice a failure.
func askedOnce(t *testing.T, p Problem) Problem {
	p.Roles = slices.Clone(p.Roles)
	for r := range p.Roles {
		oracle := p.Roles[r].Eligible
		if oracle == nil {
			continue
		}
		asked := make(map[int]bool)
		p.Roles[r].Eligible = func(h int) (bool, string) {
			if asked[h] {
				t.Errorf("role %d, host %d: asked twice", r, h)
			}
			asked[h] = true
			return oracle(h)
		}
	}
	return p
}

// checkPlaced checks P1 to P3 and the order of ranks, and returns what is left.
func checkPlaced(t *testing.T, p Problem, d Decision) [][]int64 {
	t.Helper()
	left := make([][]int64, len(p.Free))
	for h := range left {
		left[h] = slices.Clone(p.Free[h])
	}
	around := p.Tree.Domain(d.Domain)
	if around.Level != d.Level {
		t.Errorf("domain %d is of level %d, not %d", d.Domain, around.Level, d.Level)
	}
	used := slices.Clone(p.Anchors)
	for r, role := range p.Roles {
		if len(d.Hosts[r]) != role.Pods {
			t.Errorf("role %d: %d ranks for %d pods", r, len(d.Hosts[r]), role.Pods)
		}
		for rank, h := range d.Hosts[r] {
			switch {
			case h == Unplaced && rank < role.Minimum:
				t.Errorf("role %d: rank %d is of the minimum, but not placed", r, rank)
			case h == Unplaced:
			case rank > 0 && h < d.Hosts[r][rank-1]:
				t.Errorf("role %d: rank %d is out of order: %v", r, rank, d.Hosts[r])
			case !twinEligible(role, h):
				t.Errorf("role %d: host %d is not eligible", r, h)
			case !twinHasRoom(role, left[h]):
				t.Errorf("role %d: host %d is above its capacity", r, h)
			default:
				twinTake(role, left[h], 1)
				used = append(used, h)
			}
		}
	}
	for _, h := range used {
		if h < around.First || h >= around.Last {
			t.Errorf("host %d is outside the decision's domain", h)
		}
	}
	if len(used) > len(p.Anchors) && d.Level < p.Constraint.Required {
		t.Errorf("placed at level %d, outside the required level %d", d.Level, p.Constraint.Required)
	}
	return left
}

// checkExtras checks that a pod was left out only where no room is left.
func checkExtras(t *testing.T, p Problem, d Decision, left [][]int64) {
	t.Helper()
	scope := p.Tree.Domain(0)
	if first := p.Tree.Domain(d.Domain); d.Level >= p.Constraint.Required {
		scope = p.Tree.Domain(p.Tree.DomainOf(first.First, p.Constraint.Required))
	}
	for r, role := range p.Roles {
		if !slices.Contains(d.Hosts[r], Unplaced) || d.Level < p.Constraint.Required {
			continue
		}
		for h := scope.First; h < scope.Last; h++ {
			if twinEligible(role, h) && twinHasRoom(role, left[h]) {
				t.Errorf("role %d has unplaced pods, but host %d has room", r, h)
			}
		}
	}
}

// checkOneRole checks, for gangs of one role where the twin can tell, that the
// fewest sub-domains are used and that the domain is the tightest.
func checkOneRole(t *testing.T, p Problem, d Decision, full []int, level int) {
	t.Helper()
	if len(p.Roles) != 1 || p.Roles[0].Eligible != nil || len(p.Anchors) > 0 || d.Level != level {
		return
	}
	role := p.Roles[0]
	if role.Request[len(role.Request)-1] == 0 {
		return // keeps away from devices first
	}
	last := len(p.Tree.Levels()) - 1
	inner := level + 1
	if p.Constraint.Preferred > level {
		inner = p.Constraint.Preferred
		if got, want := domainsUsed(p, d, inner), twinFewest(p, full, level, inner); got != want {
			t.Errorf("%d domains of the preferred level used, %d are enough", got, want)
		}
		return
	}
	used := p.Tree.Domain(d.Domain)
	if inner < last {
		got := domainsUsed(p, d, inner)
		want := len(p.Free)
		for k := 1; k < want; k++ {
			if fitsIn(p, full, used, inner, k) {
				want = k
			}
		}
		if got > want {
			t.Errorf("%d domains of level %d used, %d are enough", got, inner, want)
		}
	}
	slots := func(first, last int) (n int64) {
		for h := first; h < last; h++ {
			n += slotsIn(p.Free[h], role)
		}
		return n
	}
	for _, o := range p.Tree.Domains(level) {
		if s := slots(o.First, o.Last); s >= int64(role.Pods) && s < slots(used.First, used.Last) {
			t.Errorf("domain %d was chosen, but domain %d is tighter", used.ID, o.ID)
		}
	}
}

// fitsIn says whether k domains of the inner level within d hold the gang.
func fitsIn(p Problem, want []int, d topology.Domain, inner, k int) bool {
	var parts []topology.Domain
	for _, o := range p.Tree.Domains(inner) {
		if d.First <= o.First && o.Last <= d.Last {
			parts = append(parts, o)
		}
	}
	for set := range 1 << len(parts) {
		var hosts []int
		size := 0
		for i, o := range parts {
			if set&(1<<i) != 0 {
				hosts = append(hosts, twinHosts(o.First, o.Last)...)
				size++
			}
		}
		if size == k && twinFits(p, want, hosts) {
			return true
		}
	}
	return false
}

func domainsUsed(p Problem, d Decision, level int) int {
	seen := make(map[int]bool)
	for _, ranks := range d.Hosts {
		for _, h := range ranks {
			if h != Unplaced {
				seen[p.Tree.DomainOf(h, level)] = true
			}
		}
	}
	return len(seen)
}

// checkRejections checks that what a domain is said to have room for fits, that
// it is not everything, and that the nearest comes first.
func checkRejections(t *testing.T, p Problem, d Decision, minimum []int) {
	t.Helper()
	if got, want := len(d.Rejections), len(twinCandidates(p, p.Constraint.Required)); got != want {
		t.Errorf("%d rejections for %d domains", got, want)
	}
	before := 0
	for i, rj := range d.Rejections {
		missing := 0
		for r := range minimum {
			missing += minimum[r] - rj.Room[r]
		}
		dom := p.Tree.Domain(rj.Domain)
		if missing <= 0 || len(rj.Shortages) == 0 {
			t.Errorf("domain %d is rejected, but nothing is missing", rj.Domain)
		}
		if missing < before {
			t.Errorf("domain %d is nearer to fitting than the one before", rj.Domain)
		}
		if i == 0 && !twinFits(p, rj.Room, twinHosts(dom.First, dom.Last)) {
			t.Errorf("domain %d does not have the room it is said to have: %v", rj.Domain, rj.Room)
		}
		before = missing
	}
}

// draw prints a problem for the log of a failed test.
func draw(p Problem) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v required %d preferred %d anchors %v\n", p.Resources, p.Constraint.Required, p.Constraint.Preferred, p.Anchors)
	for h, free := range p.Free {
		fmt.Fprintf(&b, "host %d: %s free %v\n", h, p.Tree.Describe(p.Tree.DomainOf(h, len(p.Tree.Levels())-1)), free)
	}
	for _, r := range p.Roles {
		fmt.Fprintf(&b, "role %s: %d pods, minimum %d, request %v", r.Name, r.Pods, r.Minimum, r.Request)
		for h := range p.Free {
			if !twinEligible(r, h) {
				fmt.Fprintf(&b, " not %d", h)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}
