// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"embed"
	"encoding/csv"
	"fmt"
	"strconv"

	"github.com/tutti-project/tutti/pkg/topology"
)

//go:embed testdata/*.csv
var data embed.FS

const gpusPerHost = 8

// The fabric's levels, from wide to narrow.
var levels = []topology.Level{
	{Name: "spine", NodeLabels: []string{"spine"}},
	{Name: "leaf", NodeLabels: []string{"leaf"}},
}

// fabric is the cluster's shape: what never changes during a run.
type fabric struct {
	tree        *topology.Tree
	spine, leaf int   // indexes of the levels
	spineOf     []int // [host] position of its spine among all
	leafOf      []int // [host]
	leaves      []topology.Domain
	spines      []topology.Domain
	largestLeaf int // hosts
}

func loadFabric() (*fabric, error) {
	rows, err := readTable("testdata/fabric.csv")
	if err != nil {
		return nil, err
	}
	var hosts []topology.HostLabels
	for _, row := range rows {
		n, err := strconv.Atoi(row[2])
		if err != nil {
			return nil, fmt.Errorf("hosts of leaf %s: %w", row[1], err)
		}
		for range n {
			hosts = append(hosts, topology.HostLabels{
				Name:   fmt.Sprintf("h%d", len(hosts)),
				Labels: map[string]string{"spine": row[0], "leaf": row[1]},
			})
		}
	}
	return newFabric(hosts), nil
}

func newFabric(hosts []topology.HostLabels) *fabric {
	f := &fabric{tree: topology.New(levels, hosts)}
	f.spine, _ = f.tree.LevelIndex("spine")
	f.leaf, _ = f.tree.LevelIndex("leaf")
	f.spines, f.leaves = f.tree.Domains(f.spine), f.tree.Domains(f.leaf)
	for h := range f.tree.Hosts() {
		f.spineOf = append(f.spineOf, f.tree.DomainOf(h, f.spine)-f.spines[0].ID)
		f.leafOf = append(f.leafOf, f.tree.DomainOf(h, f.leaf)-f.leaves[0].ID)
	}
	for _, l := range f.leaves {
		f.largestLeaf = max(f.largestLeaf, l.Last-l.First)
	}
	return f
}

func (f *fabric) hosts() int { return len(f.leafOf) }

// job is a row of the trace.
type job struct {
	gpus    int
	seconds float64
}

// loadTrace returns the jobs and the gaps between their arrivals.
func loadTrace() (jobs []job, gaps []float64, err error) {
	rows, err := readTable("testdata/gangs.csv")
	if err != nil {
		return nil, nil, err
	}
	before := 0.0
	for i, row := range rows {
		var n [3]float64
		for j := range n {
			if n[j], err = strconv.ParseFloat(row[j], 64); err != nil {
				return nil, nil, fmt.Errorf("row %d of the trace: %w", i+1, err)
			}
		}
		jobs = append(jobs, job{gpus: int(n[1]), seconds: n[2]})
		gaps = append(gaps, n[0]-before)
		before = n[0]
	}
	return jobs, gaps, nil
}

// readTable reads a file with a header.
func readTable(name string) ([][]string, error) {
	file, err := data.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return rows[1:], nil
}
