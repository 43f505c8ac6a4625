// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tutti-project/tutti/pkg/topology"
)

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
	if d.Bounded || d.Explain(p) == "" {
		t.Error("the limit was reached on a small problem, or nothing is explained")
	}
	full, minimum := make([]int, len(p.Roles)), make([]int, len(p.Roles))
	for r, role := range p.Roles {
		full[r], minimum[r] = role.Pods, role.Minimum
	}
	last := len(p.Tree.Levels()) - 1
	_, fits := twinLevel(p, minimum, last)
	// A gang of which nothing is needed is not refused, wherever its anchors are.
	if fits = fits || !slices.ContainsFunc(minimum, positive); fits != (d.Hosts != nil) {
		t.Errorf("placed: %v, but an assignment exists: %v", d.Hosts != nil, fits)
		return d
	}
	if !fits {
		checkWider(t, p, d, minimum)
		checkRejections(t, p, d, minimum)
		return d
	}
	checkQuality(t, p, d, full)
	return d
}

// checkQuality checks a decision that places the gang, beyond that it does.
func checkQuality(t *testing.T, p Problem, d Decision, full []int) {
	t.Helper()
	left := checkPlaced(t, p, d)
	start := len(p.Tree.Levels()) - 1
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
		if p.Constraint.SliceSize <= 1 && kindless(p) {
			checkFewest(t, p, d, full, level)
			checkTightest(t, p, d, level)
		}
	case p.Constraint.SliceSize <= 1 && kindless(p):
		checkExtras(t, p, d, left)
	}
}

// kindless: hosts are alike to all roles.
func kindless(p Problem) bool {
	return p.Kinds == nil && !slices.ContainsFunc(p.Roles, func(r Role) bool { return r.Kind != "" })
}

// checkWider checks that the narrowest level is named that would do.
func checkWider(t *testing.T, p Problem, d Decision, minimum []int) {
	t.Helper()
	from := p.Constraint.Required - 1
	p.Constraint.Required = 0
	level, fits := twinLevel(p, minimum, from)
	if fits = fits && slices.ContainsFunc(minimum, positive); fits != (d.Wider != nil) || fits && d.Wider.Level != level {
		t.Errorf("%+v would take the gang, but one of level %d (%v) does", d.Wider, level, fits)
	}
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
	checkGPUs(t, p, d)
	for r := range p.Roles {
		checkSlices(t, p, r, d.Hosts[r])
		checkKinds(t, p, r, d.Hosts)
		used = append(used, checkRanks(t, p, r, d.Hosts[r], left)...)
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

// checkSlices checks that the ranks of a slice share a domain of the slice level.
func checkSlices(t *testing.T, p Problem, r int, hosts []int) {
	t.Helper()
	if p.Constraint.SliceSize <= 1 {
		return
	}
	for slice := range slices.Chunk(hosts, p.Constraint.SliceSize) {
		for _, h := range slice {
			if h != Unplaced && p.Tree.DomainOf(h, p.Constraint.SliceLevel) != p.Tree.DomainOf(slice[0], p.Constraint.SliceLevel) {
				t.Errorf("role %d: a slice is torn: %v", r, hosts)
			}
		}
	}
}

// checkKinds checks that a uniform role, and those of its family, stand on one
// kind of hosts.
func checkKinds(t *testing.T, p Problem, r int, hosts [][]int) {
	t.Helper()
	if p.Kinds == nil || !p.Roles[r].Uniform {
		return
	}
	kinds := map[string]bool{}
	if p.Roles[r].Kind != "" {
		kinds[p.Roles[r].Kind] = true
	}
	for other, role := range p.Roles {
		if other != r && (!role.Uniform || role.Family == "" || role.Family != p.Roles[r].Family) {
			continue
		}
		for _, h := range hosts[other] {
			if h != Unplaced {
				kinds[p.Kinds[h]] = true
			}
		}
	}
	if len(kinds) > 1 {
		t.Errorf("role %d and its family: hosts of several kinds: %v of %v", r, hosts, p.Kinds)
	}
}

// checkRanks takes a role's room from left and returns the hosts it uses.
func checkRanks(t *testing.T, p Problem, r int, hosts []int, left [][]int64) []int {
	t.Helper()
	role := p.Roles[r]
	if len(hosts) != role.Pods {
		t.Errorf("role %d: %d ranks for %d pods", r, len(hosts), role.Pods)
	}
	var used []int
	for rank, h := range hosts {
		switch {
		case h == Unplaced && rank < role.Minimum:
			t.Errorf("role %d: rank %d is of the minimum, but not placed", r, rank)
		case h == Unplaced:
		case p.Constraint.SliceSize <= 1 && rank > 0 && h < hosts[rank-1]:
			t.Errorf("role %d: rank %d is out of order: %v", r, rank, hosts)
		case !twinEligible(role, h):
			t.Errorf("role %d: host %d is not eligible", r, h)
		case !twinHasRoom(role, left[h]):
			t.Errorf("role %d: host %d is above its capacity", r, h)
		default:
			twinTake(role, left[h], 1)
			used = append(used, h)
		}
	}
	return used
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
			if role.Link == 0 && twinEligible(role, h) && twinHasRoom(role, left[h]) {
				t.Errorf("role %d has unplaced pods, but host %d has room", r, h)
			}
		}
	}
}

// checkFewest checks, where the twin can tell, that the fewest sub-domains are
// used: those of the preferred level if that is below, or else of the next.
func checkFewest(t *testing.T, p Problem, d Decision, full []int, level int) {
	t.Helper()
	ask := slices.ContainsFunc(p.Roles, func(r Role) bool { return r.Eligible != nil })
	if ask || len(p.Anchors) > 0 || d.Level != level {
		return
	}
	inner := level + 1
	switch {
	case p.Constraint.Preferred > level:
		inner = p.Constraint.Preferred
		// Of several roles only a lower bound is compared between domains.
		if len(p.Roles) == 1 && p.Roles[0].Request[len(p.Resources)-1] > 0 {
			if got, want := domainsUsed(p, d, inner), twinFewest(p, full, level, inner); got != want {
				t.Errorf("%d domains of the preferred level used, %d are enough", got, want)
			}
		}
	case inner < len(p.Tree.Levels()) && len(p.Tree.Domains(inner)) < p.Tree.Hosts():
		got := domainsUsed(p, d, inner)
		for k := 1; k < got; k++ {
			if fitsIn(p, full, p.Tree.Domain(d.Domain), inner, k) {
				t.Errorf("%d domains of level %d used, %d are enough", got, inner, k)
				break
			}
		}
	}
}

// checkTightest checks that a gang of one role with devices, which was free to
// choose among the domains of the level, took the one with the least slots and hosts.
func checkTightest(t *testing.T, p Problem, d Decision, level int) {
	t.Helper()
	role := p.Roles[0]
	if len(p.Roles) > 1 || role.Link > 0 || role.Eligible != nil || len(p.Anchors) > 0 || d.Level != level ||
		p.Constraint.Preferred > level || role.Request[len(p.Resources)-1] == 0 {
		return
	}
	slots := func(dom topology.Domain) (n int64) {
		for h := dom.First; h < dom.Last; h++ {
			n += slotsIn(p.Free[h], role.Request, int64(role.Pods))
		}
		return n
	}
	room := func(dom topology.Domain) int64 { return slots(dom) + 2*int64(dom.Last-dom.First) }
	used := p.Tree.Domain(d.Domain)
	for _, o := range p.Tree.Domains(level) {
		if slots(o) >= int64(role.Pods) && room(o) < room(used) {
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

// checkRejections checks that what a domain is said to have room for is what it has
// room for and no more, that it is not everything, and that the nearest comes first.
func checkRejections(t *testing.T, p Problem, d Decision, minimum []int) {
	t.Helper()
	if got, want := len(d.Rejections), min(len(twinCandidates(p, p.Constraint.Required)), maxRejections); got != want {
		t.Errorf("%d rejections for %d domains", got, want)
	}
	if d.Roughly {
		t.Error("not certain on a small problem")
	}
	before := 0
	for i, rj := range d.Rejections {
		missing := checkRoom(t, p, d, rj, minimum, i == 0)
		if missing < before {
			t.Errorf("domain %d is nearer to fitting than the one before", rj.Domain)
		}
		before = missing
	}
	for _, rj := range d.Levels {
		checkRoom(t, p, d, rj, minimum, true)
	}
	checkNearest(t, p, d, minimum)
}

// checkRoom checks what is said of one domain, for the kinds of hosts that are named.
// Hosts of domains that are not the nearest may not have been asked for.
func checkRoom(t *testing.T, p Problem, d Decision, rj Rejection, minimum []int, asked bool) (missing int) {
	t.Helper()
	p.Roles = slices.Clone(p.Roles)
	known := nameKinds(p, d)
	missing = podsIn(minimum) - podsIn(rj.Room)
	if missing <= 0 || len(rj.Shortages) == 0 || rj.AtLeast {
		t.Errorf("domain %d is rejected, but nothing is missing, or not certain: %+v", rj.Domain, rj)
	}
	dom := p.Tree.Domain(rj.Domain)
	hosts := twinHosts(dom.First, dom.Last)
	if most := twinMost(p, minimum, hosts); known && (podsIn(rj.Room) < most || asked && podsIn(rj.Room) > most) {
		t.Errorf("domain %d has room for %d pods, not for %v", rj.Domain, most, rj.Room)
	}
	if !asked {
		for r := range p.Roles {
			p.Roles[r].Eligible = nil
		}
	}
	if !twinFits(p, rj.Room, hosts) {
		t.Errorf("domain %d does not have the room it is said to have: %v", rj.Domain, rj.Room)
	}
	return missing
}

// nameKinds gives the roles the kinds that the decision speaks of, and tells whether it
// says so of all.
func nameKinds(p Problem, d Decision) (known bool) {
	known = true
	for r := range p.Roles {
		if p.Roles[r].Uniform && d.Kinds[r] != "" {
			p.Roles[r].Kind = d.Kinds[r]
		} else if p.Roles[r].Uniform && slices.Contains(p.Kinds, "") {
			known = false
		}
	}
	return known
}

// checkNearest checks that no domain has room for more, on hosts of whatever kind, and
// what is said of the time when no other pod runs.
func checkNearest(t *testing.T, p Problem, d Decision, minimum []int) {
	t.Helper()
	if len(d.Rejections) == 0 {
		return
	}
	for _, hosts := range twinCandidates(p, p.Constraint.Required) {
		if most := twinMost(p, minimum, hosts); most > podsIn(d.Rejections[0].Room) {
			t.Errorf("domain %d with room for %v is the nearest, but hosts %v have room for %d", d.Rejections[0].Domain, d.Rejections[0].Room, hosts, most)
		}
	}
	for r, kind := range d.Kinds {
		dom := p.Tree.Domain(d.Rejections[0].Domain)
		if kind != "" && p.Roles[r].Kind == "" && !slices.Contains(p.Kinds[dom.First:dom.Last], kind) {
			t.Errorf("domain %d is spoken of as having kind %q", dom.ID, kind)
		}
	}
}

func podsIn(pods []int) (n int) {
	for _, p := range pods {
		n += p
	}
	return n
}
