// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tutti-project/tutti/pkg/topology"
)

// long makes the random tests of larger clusters take minutes:
//
//	go test ./pkg/placement -run Larger -long
var long = flag.Bool("long", false, "200,000 larger problems instead of some hundred")

// drawnHost is a host before it has a place in a tree.
type drawnHost struct {
	topology.HostLabels
	free []int64
	kind string
	not  []bool // [role] not eligible
}

var invariantLevels = []topology.Level{{Name: "spine", NodeLabels: []string{"spine"}}, {Name: "rack", NodeLabels: []string{"rack"}}}

func drawHost(rng *rand.Rand, i, hosts, roles int) drawnHost {
	h := drawnHost{
		HostLabels: topology.HostLabels{Name: fmt.Sprint("n", i), Labels: map[string]string{}},
		free:       []int64{int64(rng.IntN(97)) * 1000, int64(rng.IntN(10)) - 1, int64(rng.IntN(20))},
		kind:       []string{"", "", "", "old"}[rng.IntN(4)],
	}
	rack := rng.IntN(max(1, hosts/8))
	if rng.IntN(20) > 0 {
		h.Labels["spine"] = fmt.Sprint(rack / 4)
		h.Labels["rack"] = fmt.Sprint(rack)
	}
	for range roles {
		h.not = append(h.not, rng.IntN(6) == 0)
	}
	return h
}

// problemOf builds the problem of the hosts, which come in any order. Anchors
// are the hosts named.
func problemOf(hosts []drawnHost, roles []Role, constraint Constraint, anchors []string) Problem {
	labels := make([]topology.HostLabels, len(hosts))
	by := make(map[string]drawnHost, len(hosts))
	for i, h := range hosts {
		labels[i], by[h.Name] = h.HostLabels, h
	}
	p := Problem{
		Tree: topology.New(invariantLevels, labels), Resources: []string{"cpu", "nvidia.com/gpu", "pods"},
		Roles: slices.Clone(roles), Constraint: constraint,
	}
	for i := range hosts {
		h := by[p.Tree.HostName(i)]
		p.Free, p.Kinds = append(p.Free, h.free), append(p.Kinds, h.kind)
	}
	for r := range p.Roles {
		p.Roles[r].Eligible = func(h int) (bool, string) { return !by[p.Tree.HostName(h)].not[r], "drawn" }
	}
	for _, name := range anchors {
		h, _ := p.Tree.HostIndex(name)
		p.Anchors = append(p.Anchors, h)
	}
	return p
}

func drawRoles(rng *rand.Rand, most int) []Role {
	roles := []Role{
		{Name: "worker", Pods: 1 + rng.IntN(most), Request: []int64{int64(1+rng.IntN(24)) * 1000, int64(1 + rng.IntN(4)), 1}, Uniform: rng.IntN(2) == 0},
		{Name: "ps", Pods: 1 + rng.IntN(8), Request: []int64{int64(1+rng.IntN(24)) * 1000, 0, 1}},
		{Name: "chief", Pods: 1, Request: []int64{8_000, int64(rng.IntN(9)), 1}},
	}[:1+rng.IntN(3)]
	for r := range roles {
		roles[r].Minimum = roles[r].Pods - rng.IntN(2)*rng.IntN(roles[r].Pods+1)
	}
	return roles
}

// TestInvariantsOnLargerClusters checks what needs no twin: capacity, required
// level, minimums, slices and kinds; that a decision depends neither on the
// order in which hosts are listed nor on a repetition; and that one more host
// turns no yes into a no.
func TestInvariantsOnLargerClusters(t *testing.T) {
	n := 1_000
	if *long {
		n = 200_000
	}
	fits, bounded := 0, 0
	for seed := range n {
		rng := rand.New(rand.NewPCG(uint64(seed), 43))
		var hosts []drawnHost
		size := 10 + rng.IntN(60)
		roles := drawRoles(rng, size)
		for i := range size {
			hosts = append(hosts, drawHost(rng, i, size, len(roles)))
		}
		constraint := Constraint{Required: rng.IntN(3), Preferred: rng.IntN(4)}
		if rng.IntN(3) == 0 {
			constraint.SliceSize, constraint.SliceLevel = 2+rng.IntN(4), 1+rng.IntN(2)
		}
		var anchors []string
		if rng.IntN(8) == 0 {
			anchors = []string{hosts[rng.IntN(size)].Name}
		}
		p := problemOf(hosts, roles, constraint, anchors)
		d := Plan(askedOnce(t, p))
		if d.Hosts != nil {
			fits++
			checkPlaced(t, p, d)
		}
		rng.Shuffle(len(hosts), func(i, j int) { hosts[i], hosts[j] = hosts[j], hosts[i] })
		if diff := cmp.Diff(d, Plan(problemOf(hosts, roles, constraint, anchors))); diff != "" {
			t.Errorf("hosts listed in another order, another decision:\n%s", diff)
		}
		more := Plan(problemOf(append(hosts, drawHost(rng, size, size, len(roles))), roles, constraint, anchors))
		if d.Hosts != nil && more.Hosts == nil && !more.Bounded {
			t.Errorf("it fits, but not with one more host: %s", more.Explain(p))
		}
		if d.Bounded || more.Bounded {
			bounded++
		}
		if t.Failed() {
			t.Fatalf("seed %d:\n%s", seed, draw(p))
		}
	}
	t.Logf("%d of %d fit; %d reached a limit", fits, n, bounded)
}
