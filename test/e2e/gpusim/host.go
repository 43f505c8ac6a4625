// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/tutti-project/tutti/pkg/topology"
)

// levelScores are what NVIDIA's best-effort policy gives to a pair of GPUs for
// the way between them through the PCIe tree.
var levelScores = map[string]int{"SYS": 10, "NODE": 20, "PHB": 30, "PXB": 40, "PIX": 50, "PSB": 60}

// linkScore is what it gives to each NVLink between the two.
const linkScore = 100

// readScores reads a host's link matrix, as nvidia-smi prints it, below a line
// "host links=N ..." that says how many NVLinks a GPU has, and returns the
// score of each pair. The file may go on after a line of dashes.
func readScores(path string) ([][]int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var rows [][]topology.Link
	perGPU := 0
	for scanner := bufio.NewScanner(strings.NewReader(string(text))); scanner.Scan(); {
		line := scanner.Text()
		if strings.HasPrefix(line, "---") {
			break
		}
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if strings.HasPrefix(line, "host ") {
			perGPU, err = linksOf(line)
		} else {
			var row []topology.Link
			row, err = readRow(line)
			rows = append(rows, row)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%s: no link matrix", path)
	}
	return scores(rows, perGPU), nil
}

func linksOf(header string) (int, error) {
	for field := range strings.FieldsSeq(header) {
		if value, ok := strings.CutPrefix(field, "links="); ok {
			return strconv.Atoi(value)
		}
	}
	return 0, nil
}

func readRow(line string) ([]topology.Link, error) {
	var row []topology.Link
	for cell := range strings.FieldsSeq(line) {
		link := topology.Link{}
		if cell != "X" {
			var err error
			if link, err = topology.ParseLink(cell); err != nil {
				return nil, err
			}
		}
		row = append(row, link)
	}
	return row, nil
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
