// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestAllReduceTimes holds the cost model's numbers: 2 (n-1)/n of 1 GB over the
// ring bandwidth.
func TestAllReduceTimes(t *testing.T) {
	for _, tc := range []struct {
		board string
		set   Set
		want  int64 // nanoseconds
	}{
		{"dgx-1v", 0b1, 0},
		{"dgx-1v", 0b1001, 20_000_000},      // a pair with two links: 1 GB at 50 GB/s
		{"dgx-1v", 0b11, 40_000_000},        // with one
		{"dgx-1v", 0b100001, 100_000_000},   // with none, between sockets: 10 GB/s
		{"dgx-1v", 0b1111, 15_000_000},      // a quad: 1.5 GB at 100 GB/s
		{"dgx-1v", 0b110011, 30_000_000},    // two rings across
		{"dgx-1v", 0b11111, 160_000_000},    // 4 + 1 holds no ring
		{"dgx-1v", 0b11111111, 11_666_666},  // the whole board: 1.75 GB at 150 GB/s
		{"dgx-1p", 0b11111111, 21_875_000},  // 4 links of 20 GB/s
		{"hgx-h100", 0b11, 2_222_222},       // through the switch: 450 GB/s
		{"hgx-h100", 0b11111111, 3_888_888}, // the same
		{"a100-pcie-8", 0b101, 3_333_333},   // a bridged pair: 300 GB/s
		{"l40s-4", 0b11, 38_248_231},        // one NUMA node: 83 % of PCIe 4 x16
		{"l40s-4", 0b110, 45_454_545},       // between sockets
		{"gb200-tray", 0b1111, 1_666_666},   // 900 GB/s
		{"h100-sxm-4", 0b1111, 3_333_333},   // three direct links of 6
	} {
		if got := readHost(t, "testdata/hosts/"+tc.board).AllReduceNanos(tc.set); got != tc.want {
			t.Errorf("%s, GPUs %s: %d ns, want %d", tc.board, tc.set, got, tc.want)
		}
	}
}

// TestBandwidthsAreThoseOfTheHardware holds what NVIDIA and the PCIe standard say, in
// MB/s per direction: links of a GPU times their rate, or the slot's.
func TestBandwidthsAreThoseOfTheHardware(t *testing.T) {
	for _, tc := range []struct {
		board string
		set   Set
		want  int
	}{
		{"dgx-1p", 0xff, 80_000},        // 4 links of 20 GB/s
		{"dgx-1v", 0xff, 150_000},       // 6 of 25
		{"v100-vm-96", 0xff, 150_000},   // the same board
		{"dgx-2", 0xffff, 150_000},      // the same GPUs behind a switch
		{"dgx-a100", 0xff, 300_000},     // 12 of 25
		{"a100-pcie-4", 0b11, 300_000},  // the same through a bridge
		{"a40-8", 0b11, 56_248},         // 4 of 14.062
		{"h100-sxm-4", 0b1111, 450_000}, // 18 of 25, 6 to each
		{"hgx-h100", 0xff, 450_000},     // the same through switches
		{"b200", 0xff, 900_000},         // 18 of 50
		{"gb200-tray", 0b1111, 900_000}, // the same
		{"l40s-8", 0b11, 26_145},        // 83 % of 31.5, PCIe 4 x16 through the host bridge
		{"l40s-8", 0b10001, 22_000},     // between the sockets
		{"dgx-1p", 0b100001, 6_000},     // no link: between the sockets
		{"t4-1", 0b1, 0},                // nothing to reach
	} {
		if got := readHost(t, "testdata/hosts/"+tc.board).RingBandwidth(tc.set); got != tc.want {
			t.Errorf("%s, GPUs %s: %d MB/s, want %d", tc.board, tc.set, got, tc.want)
		}
	}
}

// TestSetsOfABoard names what is chosen and what can be had.
func TestSetsOfABoard(t *testing.T) {
	nvlink, numa, whatever := Demand(3), Demand(1), Demand(0)
	for _, tc := range []struct {
		name, board string
		free        Set
		asks        []Ask
		want        string
	}{
		{"a pair with two links", "dgx-1v", 0xff, []Ask{{2, whatever}}, "[0,3]"},
		{"a quad", "dgx-1v", 0xff, []Ask{{4, whatever}}, "[0,1,2,3]"},
		{"four pairs with two links each", "dgx-1v", 0xff, []Ask{{2, whatever}, {2, whatever}, {2, whatever}, {2, whatever}}, "[0,3 1,2 4,7 5,6]"},
		{"a single from the broken quad", "dgx-1v", 0xf7, []Ask{{1, whatever}}, "[0]"},
		{"a pair from the broken quad", "dgx-1v", 0b11111001, []Ask{{2, whatever}}, "[0,3]"},
		{"the whole board has rings", "dgx-1v", 0xff, []Ask{{8, nvlink}}, "[0,1,2,3,4,5,6,7]"},
		{"seven links but no ring", "dgx-1v", 0b00101111, []Ask{{4, nvlink}}, "[0,1,2,3]"},
		{"4 + 1 is no ring", "dgx-1v", 0b00011111, []Ask{{5, nvlink}}, "[]"},
		{"a single breaks no pair", "a40-8", 0b1101, []Ask{{1, whatever}}, "[0]"},
		{"pairs beside a single", "a40-8", 0b11111, []Ask{{1, whatever}, {2, nvlink}, {2, nvlink}}, "[4 0,1 2,3]"},
		{"a pair too many", "a40-8", 0b110110, []Ask{{2, nvlink}, {2, nvlink}}, "[]"},
		{"a single keeps to its NUMA node", "l40s-8", 0b11110111, []Ask{{1, whatever}}, "[0]"},
		{"a quad of one NUMA node", "l40s-8", 0b11110111, []Ask{{4, numa}}, "[4,5,6,7]"},
		{"three of the smaller rest", "l40s-8", 0b11110111, []Ask{{3, numa}}, "[0,1,2]"},
	} {
		g := readHost(t, "testdata/hosts/"+tc.board)
		if got := fmt.Sprint(g.Choose(tc.free, tc.asks)); got != tc.want {
			t.Errorf("%s: of %s on %s %s, want %s", tc.name, tc.free, tc.board, got, tc.want)
		}
		if got, want := g.Pack(tc.free, tc.asks), tc.want != "[]"; got != want {
			t.Errorf("%s: packed: %v, want %v", tc.name, got, want)
		}
	}
}

// TestSetsAgreeWithTryingAll compares, on random boards with and without GPUs
// alike, with a search that knows of no likes and remembers nothing.
func TestSetsAgreeWithTryingAll(t *testing.T) {
	packed, refused, promised := 0, 0, 0
	for seed := range 3_000 {
		rng := rand.New(rand.NewPCG(uint64(seed), 3))
		g := randomBoard(rng)
		for range 5 {
			free := Set(rng.IntN(int(g.All()) + 1))
			var asks []Ask
			for range 1 + rng.IntN(3) {
				asks = append(asks, Ask{1 + rng.IntN(3), Demand(rng.IntN(len(demands)))})
			}
			least, most, every := tryAll(g, free, asks)
			sets := g.Choose(free, asks)
			if got := g.Pack(free, asks); got != (least != nil) || got != (sets != nil) {
				t.Fatalf("seed %d: %v of %s: packed %v, chosen %v, possible %v\n%v", seed, asks, free, got, sets, least, g.links)
			}
			if sets == nil {
				refused++
			} else {
				packed++
				if got := priceOfSets(g, free, sets); got != *least {
					t.Fatalf("seed %d: %v of %s: chosen %v at %v, but %v is possible\n%v", seed, asks, free, sets, got, *least, g.links)
				}
			}
			if most > 0 { // all asks find GPUs, however they are picked
				if got := everyOf(g, free, asks); got != every {
					t.Fatalf("seed %d: %v of %s: every %v, want %v\n%v", seed, asks, free, got, every, g.links)
				}
				if every {
					promised++
				}
			}
		}
	}
	t.Logf("%d packed, %d refused, %d promised whoever picks", packed, refused, promised)
	if packed < 1000 || refused < 1000 || promised < 500 {
		t.Error("the boards are too one-sided to prove anything")
	}
}

func everyOf(g *GPUs, free Set, asks []Ask) bool {
	return !slices.ContainsFunc(asks, func(a Ask) bool { return !g.Every(free, a) })
}

func randomBoard(rng *rand.Rand) *GPUs {
	n := 1 + rng.IntN(6)
	links, numa := make([][]Link, n), make([]int, n)
	strangers := rng.IntN(2) == 0
	for i := range links {
		links[i] = make([]Link, n)
		numa[i] = i * 2 / n
		for j := range i {
			links[i][j] = Link{Class: len(linkClasses) - 1}
			switch {
			case strangers:
				links[i][j] = Link{Class: []int{0, 0, 2, 5, 6}[rng.IntN(5)]}
			case i/2 == j/2:
				links[i][j].Class = 0
			case numa[i] == numa[j]:
				links[i][j].Class = 5
			}
			if links[i][j].Class == 0 {
				links[i][j].Bonded = 1 + i%2
			}
			links[j][i] = links[i][j]
		}
	}
	g, err := NewGPUs(links, numa, Rates{NVLink: 20, PCIe: 10, Socket: 5, NVLinks: 6})
	if err != nil {
		panic(err)
	}
	return g
}

// tryAll gives every ask all sets that are left, in turn. It returns the least
// price of those that satisfy, how many ways there are without the links, and
// whether all of these satisfy.
func tryAll(g *GPUs, free Set, asks []Ask) (least *price, ways int, every bool) {
	every = true
	var extend func(left Set, sets []Set, good bool)
	extend = func(left Set, sets []Set, good bool) {
		if len(sets) == len(asks) {
			ways++
			every = every && good
			if p := priceOfSets(g, free, sets); good && (least == nil || p.compare(*least) < 0) {
				least = &p
			}
			return
		}
		for set := left; set != 0; set = (set - 1) & left {
			if a := asks[len(sets)]; set.Len() == a.Size {
				extend(left&^set, append(sets, set), good && ringByTrying(g, set, a.Link))
			}
		}
	}
	extend(free, nil, true)
	return least, ways, every
}

func ringByTrying(g *GPUs, set Set, link Demand) bool {
	members := set.members()
	var extend func(way []int, left Set) bool
	extend = func(way []int, left Set) bool {
		at := way[len(way)-1]
		if left == 0 {
			return len(way) == 1 || link.allows(g.links[at][way[0]])
		}
		for _, i := range left.members() {
			if link.allows(g.links[at][i]) && extend(append(way, i), left&^(1<<i)) {
				return true
			}
		}
		return false
	}
	return extend(members[:1], set&^(1<<members[0]))
}

func priceOfSets(g *GPUs, free Set, sets []Set) price {
	p := price{}
	for _, set := range sets {
		p.nanos += g.AllReduceNanos(set)
		free &^= set
	}
	p.islands = g.Islands(free)
	return p
}

func TestDemandsAreThoseOfTheLinks(t *testing.T) {
	if got := fmt.Sprint(Demands()); got != "[any numa pcie nvlink]" {
		t.Errorf("demands are %s", got)
	}
	for i, name := range Demands() {
		if d, err := ParseDemand(name); err != nil || d != Demand(i) || d.String() != name {
			t.Errorf("%s is read as %d, %v", name, d, err)
		}
	}
	if _, err := ParseDemand("NVLink"); err == nil {
		t.Error("NVLink is read as a demand")
	}
}
