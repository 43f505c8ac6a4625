// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// history is a planner with a copy of the capacity that it should know of.
type history struct {
	planner *Planner
	free    [][]int64
	below   func(int) int
}

func newHistory(p Problem, below func(int) int) *history {
	hy := &history{planner: NewPlanner(p.Tree, p.Resources, cloned(p.Free)), free: cloned(p.Free), below: below}
	hy.planner.setHosts(Problem{GPUs: p.GPUs})
	hy.planner.fewHosts = -1 << 40 // the order is to serve small clusters too
	return hy
}

func cloned(free [][]int64) [][]int64 {
	all := make([][]int64, len(free))
	for h := range free {
		all[h] = slices.Clone(free[h])
	}
	return all
}

// step changes some hosts, perhaps assumes others changed, plans, and compares
// with the plan from scratch. Now and then the gang stays.
func (hy *history) step(t *testing.T, p Problem) Decision {
	t.Helper()
	p.Tree, p.Resources, p.Free = hy.planner.tree, hy.planner.resources, hy.free
	for range hy.below(4) {
		h := hy.below(len(hy.free))
		hy.free[h] = hy.drawFree()
		hy.planner.SetFree(h, slices.Clone(hy.free[h]))
	}
	if p.GPUs != nil {
		p.GPUs = randomGPUs(hy.below, hy.free, len(p.Resources)-1)
	}
	for h := range hy.free {
		hy.planner.SetGPUs(h, append(p.GPUs, make([]HostGPUs, len(hy.free))...)[h])
	}
	if hy.below(4) == 0 {
		free := hy.drawFree()
		p.Changes = []Change{{Host: hy.below(len(hy.free)), Free: free, GPUs: randomSet(hy.below, int(free[len(free)-1]), 8)}}
	}
	for h := range hy.free {
		hy.planner.SetKind(h, append(p.Kinds, make([]string, len(hy.free))...)[h])
	}
	want, got := Plan(p), hy.planner.Plan(p)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("from scratch, and after changes:\n%s\n%s", diff, draw(p))
	}
	if len(p.Changes) > 0 {
		changed := p
		changed.Free, changed.Changes = cloned(p.Free), nil
		changed.Free[p.Changes[0].Host] = p.Changes[0].Free
		if changed.GPUs = slices.Clone(p.GPUs); p.GPUs != nil {
			h := p.Changes[0].Host
			changed.GPUs[h] = changed.GPUs[h].after(p.Changes[0], p.Free[h])
		}
		if diff := cmp.Diff(Plan(changed), got); diff != "" {
			t.Errorf("changed, and assumed to be changed:\n%s\n%s", diff, draw(p))
		}
	} else if got.Hosts != nil && hy.below(2) == 0 {
		for r, ranks := range got.Hosts {
			for _, h := range ranks {
				if h != Unplaced {
					twinTake(p.Roles[r], hy.free[h], 1)
					hy.planner.SetFree(h, slices.Clone(hy.free[h]))
				}
			}
		}
	}
	return got
}

func (hy *history) drawFree() []int64 {
	free := slices.Clone(hy.free[hy.below(len(hy.free))])
	for d := range free {
		free[d] += int64(hy.below(3)) - 1
	}
	return free
}

// TestPlannerPlansAsFromScratch drives a planner through random histories.
func TestPlannerPlansAsFromScratch(t *testing.T) {
	n := 1_500
	if testing.Short() {
		n = 150
	}
	fits, no := 0, 0
	for seed := range n {
		rng := rand.New(rand.NewPCG(uint64(seed), 17))
		p := randomProblem(rng.IntN)
		hy := newHistory(p, rng.IntN)
		for range 12 {
			if d := hy.step(t, p); d.Hosts != nil {
				fits++
			} else {
				no++
			}
			p = randomGang(rng.IntN, p)
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
	t.Logf("%d plans fit, %d do not", fits, no)
}

// TestPlannerPlansAsFromScratchOnLargerClusters has clusters with levels and
// without, and gangs that come in few shapes, as they do.
func TestPlannerPlansAsFromScratchOnLargerClusters(t *testing.T) {
	for seed := range 20 {
		rng := rand.New(rand.NewPCG(uint64(seed), 19))
		p := benchProblem(200 + rng.IntN(800))
		if seed%3 == 0 {
			p.Tree = flatTree(len(p.Free))
		}
		for h := range p.Free {
			p.Free[h] = []int64{int64(rng.IntN(97)) * 1000, int64(rng.IntN(10)) - 1, int64(rng.IntN(20))}
		}
		hy := newHistory(p, rng.IntN)
		hy.planner.fewHosts = int64(rng.IntN(2)) * 64
		for range 30 {
			p.Roles, p.Anchors = []Role{worker(1 + rng.IntN(60)), server(rng.IntN(12))}, nil
			p.Roles[0].Request = []int64{int64(1+rng.IntN(4)) * 8_000, int64(rng.IntN(9)), 1}
			p.Roles[0].Minimum -= rng.IntN(2) * rng.IntN(p.Roles[0].Pods)
			p.Roles = p.Roles[:1+rng.IntN(2)]
			p.Constraint = Constraint{Required: rng.IntN(2), Preferred: rng.IntN(len(p.Tree.Levels()))}
			if rng.IntN(5) == 0 {
				p.Anchors = []int{rng.IntN(len(p.Free))}
			}
			if rng.IntN(3) == 0 {
				p.Roles[0].Eligible = func(h int) (bool, string) { return h%7 > 2, fmt.Sprint("drawn ", h%7) }
			}
			hy.step(t, p)
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
}

// TestPlannerForgetsShapesAndChanges goes beyond what a planner remembers.
func TestPlannerForgetsShapesAndChanges(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 23))
	p := benchProblem(40)
	hy := newHistory(p, rng.IntN)
	for i := range 4 * maxShapes {
		p.Roles = []Role{worker(3)}
		p.Roles[0].Request = []int64{int64(1+i%(maxShapes+3)) * 1000, 1, 1}
		for range i % 7 * 20 {
			h := rng.IntN(len(hy.free))
			hy.free[h] = hy.drawFree()
			hy.planner.SetFree(h, slices.Clone(hy.free[h]))
		}
		hy.step(t, p)
	}
	if got := len(hy.planner.shapes); got != maxShapes {
		t.Errorf("%d shapes are kept, want %d", got, maxShapes)
	}
}

func TestOrderedIsASortedSet(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 29))
	o, want := newOrdered(nil), []key(nil)
	for range 20_000 {
		k := newKey(1+2*rng.IntN(2), int64(1+rng.IntN(20)), int64(rng.IntN(9)), rng.IntN(300))
		i, in := slices.BinarySearch(want, k)
		if in && rng.IntN(4) > 0 {
			want = slices.Delete(want, i, i+1)
			o.remove(k)
		} else if !in {
			want = slices.Insert(want, i, k)
			o.insert(k)
		}
	}
	var got []key
	for p := o.seek(0); ; p = o.next(p) {
		k, ok := o.at(p)
		if !ok {
			break
		}
		got = append(got, k)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	for need := int64(1); need < 25; need++ {
		wanted, found := leastThatFits(want, classDevices, need)
		p, ok := o.fits(classDevices, need)
		if k, _ := o.at(p); ok != found || ok && k != wanted {
			t.Errorf("fits(%d) is %v, %v; want %v, %v", need, k, ok, wanted, found)
		}
	}
}

// leastThatFits is ordered.fits on a sorted list.
func leastThatFits(keys []key, class int, need int64) (least key, found bool) {
	for _, k := range keys {
		if k.class() == class && k.slots() >= need && (!found || k.slots() != least.slots()) {
			least, found = k, true
		}
	}
	return least, found
}
