// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// unevenMesh draws a board on which no two GPUs are alike, each with some links to
// most of the others.
func unevenMesh(rng *rand.Rand, gpus int) [][]Link {
	links := make([][]Link, gpus)
	for i := range links {
		links[i] = make([]Link, gpus)
	}
	for i := range links {
		for j := range i {
			l := Link{Class: rng.IntN(len(linkClasses))}
			if l.Class < 4 {
				l = Link{Class: classNVLink, Bonded: 1 + rng.IntN(3)}
			}
			links[i][j], links[j][i] = l, l
		}
	}
	return links
}

// BenchmarkFirstFreeSet asks all that a plan asks of a board for the first time.
func BenchmarkFirstFreeSet(b *testing.B) {
	for _, gpus := range []int{8, 10, 12} {
		b.Run(fmt.Sprintf("gpus=%d", gpus), func(b *testing.B) {
			links := unevenMesh(rand.New(rand.NewPCG(1, 79)), gpus)
			for b.Loop() {
				g, err := NewGPUs(links, nil, Rates{NVLink: 25_000, PCIe: 12_000, Socket: 9_000, NVLinks: 100})
				if err != nil {
					b.Fatal(err)
				}
				for size := 1; size <= gpus; size++ {
					g.Range(g.All(), size)
					g.Broken(g.All(), size)
				}
			}
		})
	}
}
