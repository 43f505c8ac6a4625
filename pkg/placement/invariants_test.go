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
//	go test ./pkg/placement -run Larger -timeout 2h -long
var long = flag.Bool("long", false, "200,000 larger problems instead of some hundred, and 20,000 with victims")

// drawnHost is a host before it has a place in a tree.
type drawnHost struct {
	topology.HostLabels
	free []int64
	kind string
	gpus HostGPUs
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
	if model := boards[rng.IntN(len(boards))]; model != nil {
		h.gpus = HostGPUs{Model: model, Resource: 1, Free: randomSet(rng.IntN, int(h.free[1]), model.Count()), PlannerPicks: rng.IntN(2) == 0}
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
		p.GPUs = append(p.GPUs, h.gpus)
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
	linked := rng.IntN(3) == 0
	for r := range roles {
		roles[r].Minimum = roles[r].Pods - rng.IntN(2)*rng.IntN(roles[r].Pods+1)
		if linked {
			roles[r].GPU, roles[r].Link = 1, topology.Demand(rng.IntN(len(topology.Demands())))
		}
	}
	return roles
}

// drawnCluster is a problem in parts, so that it can be put together in another order.
type drawnCluster struct {
	hosts      []drawnHost
	roles      []Role
	constraint Constraint
	anchors    []string
}

func drawCluster(rng *rand.Rand) drawnCluster {
	size := 10 + rng.IntN(60)
	c := drawnCluster{roles: drawRoles(rng, size), constraint: Constraint{Required: rng.IntN(3), Preferred: rng.IntN(4)}}
	for i := range size {
		c.hosts = append(c.hosts, drawHost(rng, i, size, len(c.roles)))
	}
	if rng.IntN(3) == 0 {
		c.constraint.SliceSize, c.constraint.SliceLevel = 2+rng.IntN(4), 1+rng.IntN(2)
	}
	if rng.IntN(8) == 0 {
		c.anchors = []string{c.hosts[rng.IntN(size)].Name}
	}
	return c
}

func (c drawnCluster) problem() Problem { return problemOf(c.hosts, c.roles, c.constraint, c.anchors) }

// TestInvariantsOnLargerClusters checks what needs no twin: capacity, required
// level, minimums, slices, kinds and links; that a decision depends neither on the
// order in which hosts are listed nor on a repetition; and that one more host
// turns no yes into a no.
func TestInvariantsOnLargerClusters(t *testing.T) {
	n := 1_000
	if *long {
		n = 200_000
	}
	fits, bounded, linked := 0, 0, 0
	for seed := range n {
		rng := rand.New(rand.NewPCG(uint64(seed), 43))
		c := drawCluster(rng)
		p := c.problem()
		d := Plan(askedOnce(t, p))
		if d.Hosts != nil {
			fits++
			checkPlaced(t, p, d)
			if slices.ContainsFunc(p.Roles, func(r Role) bool { return r.demands() }) {
				linked++
			}
		}
		rng.Shuffle(len(c.hosts), func(i, j int) { c.hosts[i], c.hosts[j] = c.hosts[j], c.hosts[i] })
		if diff := cmp.Diff(d, Plan(c.problem())); diff != "" {
			t.Errorf("hosts listed in another order, another decision:\n%s", diff)
		}
		c.hosts = append(c.hosts, drawHost(rng, len(c.hosts), len(c.hosts), len(c.roles)))
		more := Plan(c.problem())
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
	t.Logf("%d of %d fit, %d of them with links; %d reached a limit", fits, n, linked, bounded)
	if fits < n/3 || fits > n*9/10 || linked < n/30 {
		t.Error("the problems are too one-sided to prove anything")
	}
}

// drawVictims gives part of what is free to victims.
func drawVictims(rng *rand.Rand, p *Problem) []Victim {
	var victims []Victim
	for range 1 + rng.IntN(12) {
		v := Victim{Cost: Cost{Violations: rng.IntN(8) / 7, Priority: rng.IntN(4), Gangs: rng.IntN(2), Lost: int64(rng.IntN(50)), Started: int64(rng.IntN(9))}}
		for _, h := range rng.Perm(len(p.Free))[:1+rng.IntN(4)] {
			freed := Change{Host: h, Free: []int64{int64(1+rng.IntN(16)) * 1000, int64(rng.IntN(5)), 1}}
			if g := &p.GPUs[h]; g.Model != nil {
				for ; freed.GPUs.Len() < int(freed.Free[1]) && g.Free != 0; g.Free &= g.Free - 1 {
					freed.GPUs |= g.Free & -g.Free
				}
			}
			for d, n := range freed.Free {
				p.Free[h][d] -= n
			}
			v.Frees = append(v.Frees, freed)
		}
		v.Cost.Pods = len(v.Frees)
		victims = append(victims, v)
	}
	return victims
}

// evicted is the problem without the victims.
func evicted(p Problem, victims []Victim, gone []int) Problem {
	p.Free, p.GPUs = twinWithout(p, victims, gone), slices.Clone(p.GPUs)
	for _, v := range gone {
		for _, f := range victims[v].Frees {
			p.GPUs[f.Host].Free |= f.GPUs
		}
	}
	return p
}

func checkNoneIsSpared(t *testing.T, p Problem, victims []Victim, e Eviction) {
	t.Helper()
	for i, v := range e.Victims {
		if others := slices.Delete(slices.Clone(e.Victims), i, i+1); Plan(evicted(p, victims, others)).Hosts != nil {
			t.Errorf("%v are evicted, but victim %d can be spared", e.Victims, v)
		}
	}
}

// TestVictimsOnLargerClusters checks what needs no twin: that the placement keeps
// all promises on what the victims leave, that nobody is evicted for a gang that
// fits or that does not fit even then, and that no victim can be spared.
func TestVictimsOnLargerClusters(t *testing.T) {
	n := 300
	if *long {
		n = 20_000
	}
	needed, least := 0, 0
	for seed := range n {
		rng := rand.New(rand.NewPCG(uint64(seed), 59))
		p := drawCluster(rng).problem()
		p.Free = cloned(p.Free)
		victims := drawVictims(rng, &p)
		without := Plan(p)
		d, e := PlanWithVictims(p, victims)
		switch {
		case without.Hosts != nil && len(e.Victims) > 0:
			t.Errorf("evicts %v for a gang that fits", e.Victims)
		case d.Hosts == nil && len(e.Victims) > 0:
			t.Errorf("evicts %v for a gang that does not fit even then", e.Victims)
		case d.Hosts != nil:
			checkPlaced(t, evicted(p, victims, e.Victims), d)
		}
		checkNoneIsSpared(t, p, victims, e)
		if len(e.Victims) > 0 {
			needed++
			if e.Least {
				least++
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d: %+v\n%s", seed, victims, draw(p))
		}
	}
	t.Logf("%d of %d need victims, of which %d sets are proven least", needed, n, least)
	if needed < n/20 {
		t.Error("the problems are too one-sided to prove anything")
	}
}
