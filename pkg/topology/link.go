// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// LinkClass is a way in which two GPUs of a host reach each other.
type LinkClass struct {
	Name  string // as nvidia-smi prints it; NVLink's is followed by how many are bonded
	Alias string // of older drivers
	// Asked is what a user who wants no weaker link calls it.
	Asked string
	// Percent of the host's PCIe bandwidth that a ring over the link gets; 0
	// for NVLink, which has its own, and for the link between sockets.
	Percent int
}

// LinkClasses are all there are, the strongest first: a further one is a row.
func LinkClasses() []LinkClass { return slices.Clone(linkClasses) }

var linkClasses = []LinkClass{
	{Name: "NV", Asked: "nvlink"},
	{Name: "PSB", Asked: "pcie", Percent: 100},
	{Name: "PIX", Asked: "pcie", Percent: 100},
	{Name: "PXB", Asked: "pcie", Percent: 100},
	{Name: "PHB", Asked: "numa", Percent: 83},
	{Name: "NODE", Asked: "numa", Percent: 83},
	{Name: "SYS", Alias: "SOC", Asked: "any"},
}

const classNVLink = 0

// Link joins two GPUs: its class, as a position in LinkClasses, and for NVLink
// how many are bonded.
type Link struct {
	Class  int
	Bonded int
}

// ParseLink reads a cell of nvidia-smi's matrix: NV12, PIX, SYS.
func ParseLink(cell string) (Link, error) {
	if digits, ok := strings.CutPrefix(cell, linkClasses[classNVLink].Name); ok {
		if n, err := strconv.Atoi(digits); err == nil && n > 0 {
			return Link{Class: classNVLink, Bonded: n}, nil
		}
	}
	i := slices.IndexFunc(linkClasses, func(c LinkClass) bool { return cell == c.Name || cell == c.Alias })
	if i <= classNVLink || cell == "" {
		return Link{}, fmt.Errorf("%q is no link between GPUs", cell)
	}
	return Link{Class: i}, nil
}

func (l Link) String() string {
	if l.Class == classNVLink {
		return linkClasses[l.Class].Name + strconv.Itoa(l.Bonded)
	}
	return linkClasses[l.Class].Name
}
