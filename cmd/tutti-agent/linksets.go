// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
	"github.com/tutti-project/tutti/pkg/board"
	"github.com/tutti-project/tutti/pkg/topology"
)

// printLinkSets prints, for every size, how the GPUs of a set can reach each other in a ring: at
// best, and whichever the device plugin picks while all are free.
func printLinkSets(out io.Writer, spec *v1alpha1.NodeTopologySpec) {
	read, err := board.Of(spec)
	if err != nil {
		fmt.Fprintf(out, "\nThe planner cannot use this: %v\n", err)
		return
	}
	model, err := read.Model()
	if err != nil {
		fmt.Fprintf(out, "\nThe planner cannot use this: %v\n", err)
		return
	}
	if model.Count() < 2 {
		return
	}
	fmt.Fprintln(out)
	if model.Uniform() {
		fmt.Fprintln(out, "All sets of one size are linked alike: only their number matters.")
	} else {
		fmt.Fprintln(out, "It matters which GPUs a pod gets. A link is promised where all sets that the device plugin may pick have it.")
	}
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "GPUS OF A POD\tBEST SETS\tLINKED BY\tRING\tANY SET\tRING")
	for size := 2; size <= model.Count(); size++ {
		best, guaranteed := model.Range(model.All(), size)
		sets, link := bestSets(model, size, best)
		fmt.Fprintf(table, "%d\t%s\t%s\t%d MB/s\t%s\t%d MB/s\n", size, sets, link, best, demandOf(model, size), guaranteed)
	}
	_ = table.Flush() // out tells
}

const (
	// shownSets is how many sets of one size are named.
	shownSets = 4
	// maxNamed is how many GPUs a node may have for its sets to be named one by one.
	maxNamed = 16
)

// bestSets names those of the widest ring, by the GPUs' places in the matrix, and the strongest link
// that they have in common.
func bestSets(model *topology.GPUs, size, best int) (sets string, link string) {
	if model.Uniform() || model.Count() > maxNamed {
		return "any", demandOf(model, size)
	}
	var named []string
	n, weakest := 0, topology.Demand(len(topology.Demands())-1)
	for set := range model.All() + 1 {
		if set.Len() != size || model.RingBandwidth(set) < best {
			continue
		}
		for !model.Satisfies(set, weakest) {
			weakest--
		}
		if n++; n <= shownSets {
			named = append(named, set.String())
		}
	}
	if n > shownSets {
		named = append(named, fmt.Sprintf("and %d more", n-shownSets))
	}
	return strings.Join(named, " "), weakest.String()
}

// demandOf is the strongest link that every set of the size has.
func demandOf(model *topology.GPUs, size int) string {
	link := topology.Demand(len(topology.Demands()) - 1)
	for !model.Every(model.All(), topology.Ask{Size: size, Link: link}) {
		link--
	}
	return link.String()
}
