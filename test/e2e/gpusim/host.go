// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"

	"github.com/tutti-project/tutti/pkg/topology"
)

// levelScores are what NVIDIA's best-effort policy gives to a pair of GPUs for
// the way between them through the PCIe tree.
var levelScores = map[string]int{"SYS": 10, "NODE": 20, "PHB": 30, "PXB": 40, "PIX": 50, "PSB": 60}

// linkScore is what it gives to each NVLink between the two.
const linkScore = 100

// readScores reads a host's link matrix (topology.HostFile) and returns the score
// of each pair.
func readScores(path string) ([][]int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	host, err := topology.ParseHostFile(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if _, err := host.GPUs(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return scores(host.Links, host.Rates.NVLinks), nil
}

// scores leaves out links through a switch, which the policy does not see; a
// row then shows more links than a GPU has. The matrix hides the PCIe level of
// GPUs with NVLink: the longest way is assumed.
func scores(rows [][]topology.Link, perGPU int) [][]int {
	result := make([][]int, len(rows))
	for i, row := range rows {
		bonded := 0
		for j, link := range row {
			if j != i {
				bonded += link.Bonded
			}
		}
		result[i] = make([]int, len(row))
		for j, link := range row {
			switch {
			case j == i:
			case link.Bonded == 0:
				result[i][j] = levelScores[link.String()]
			case bonded > perGPU:
				result[i][j] = levelScores["SYS"]
			default:
				result[i][j] = levelScores["SYS"] + linkScore*link.Bonded
			}
		}
	}
	return result
}
