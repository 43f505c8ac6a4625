// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"strconv"
	"strings"
)

// HostFile is a host's GPUs as people write them down, with the matrix that
// nvidia-smi prints:
//
//	# DGX-1, the first quad.
//	host nvlink=25000 pcie=15750 socket=10000 links=6 numa=(0, 0, 0, 0)
//	X   NV1 NV1 NV2
//	NV1 X   NV2 NV1
//	NV1 NV2 X   NV2
//	NV2 NV1 NV2 X
//
// The first line has the Rates and each GPU's NUMA node, -1 where it is unknown.
// What follows a line of dashes is not read.
type HostFile struct {
	Links [][]Link
	NUMA  []int
	Rates Rates
}

// ParseHostFile reads one host. Errors name the line.
func ParseHostFile(text string) (HostFile, error) {
	var f HostFile
	number, headed := 0, false
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "---") {
			break
		}
		if line == "" || line[0] == '#' {
			continue
		}
		var err error
		if header, ok := strings.CutPrefix(line, "host "); ok && !headed {
			headed, err = true, f.parseHeader(header)
		} else {
			err = f.parseRow(line)
		}
		if err != nil {
			return HostFile{}, fmt.Errorf("line %d: %w", number, err)
		}
	}
	if !headed || len(f.Links) == 0 {
		return HostFile{}, fmt.Errorf("line %d: the end; want a line \"host nvlink=... pcie=... socket=... links=... numa=(...)\" and below it a row of links for each GPU", number)
	}
	return f, nil
}

// GPUs checks the matrix and makes what a planner uses of it.
func (f HostFile) GPUs() (*GPUs, error) { return NewGPUs(f.Links, f.NUMA, f.Rates) }

func (f *HostFile) parseHeader(header string) error {
	rates := map[string]*int{"nvlink": &f.Rates.NVLink, "pcie": &f.Rates.PCIe, "socket": &f.Rates.Socket, "links": &f.Rates.NVLinks}
	before, list, listed := strings.Cut(header, "numa=(")
	for field := range strings.FieldsSeq(before) {
		key, value, _ := strings.Cut(field, "=")
		n, err := strconv.ParseUint(value, 10, 31)
		if rates[key] == nil || err != nil {
			return fmt.Errorf("%q is not one of nvlink=, pcie= and socket= in MB/s and links=, each with a number that is not negative", field)
		}
		*rates[key] = int(n)
	}
	if !listed {
		return fmt.Errorf("no NUMA nodes; write numa=(0, 0, 1, 1), -1 for one that is unknown")
	}
	list, closed := strings.CutSuffix(strings.TrimSpace(list), ")")
	if !closed {
		return fmt.Errorf("numa=( is not closed by ) at the end of the line")
	}
	for value := range strings.SplitSeq(list, ",") {
		n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 32)
		if err != nil || n < -1 {
			return fmt.Errorf("%q is no NUMA node; write its number, or -1 for one that is unknown", value)
		}
		f.NUMA = append(f.NUMA, int(n))
	}
	return nil
}

func (f *HostFile) parseRow(line string) error {
	var row []Link
	for cell := range strings.FieldsSeq(line) {
		link := Link{}
		if cell != "X" || len(row) != len(f.Links) { // the GPU itself
			var err error
			if link, err = ParseLink(cell); err != nil {
				return fmt.Errorf("row of GPU %d: %w; write X for itself, NV1 and so on, PIX, PXB, PHB, NODE or SYS", len(f.Links), err)
			}
		}
		row = append(row, link)
	}
	f.Links = append(f.Links, row)
	return nil
}
