// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMalformedHostFilesAreRefused(t *testing.T) {
	const head = "host nvlink=1 pcie=2 socket=3 links=4 numa=(0, -1)\n"
	for text, want := range map[string]string{
		"":                               `line 0: the end; want a line "host nvlink=... pcie=... socket=... links=... numa=(...)" and below it a row of links for each GPU`,
		head:                             `line 1: the end; want a line "host nvlink=... pcie=... socket=... links=... numa=(...)" and below it a row of links for each GPU`,
		"X NV1\n":                        `line 1: the end; want a line "host nvlink=... pcie=... socket=... links=... numa=(...)" and below it a row of links for each GPU`,
		"host a=1":                       `line 1: "a=1" is not one of nvlink=, pcie= and socket= in MB/s and links=, each with a number that is not negative`,
		"# one\nhost pcie=fast numa=(0)": `line 2: "pcie=fast" is not one of nvlink=, pcie= and socket= in MB/s and links=, each with a number that is not negative`,
		"host pcie=1":                    `line 1: no NUMA nodes; write numa=(0, 0, 1, 1), -1 for one that is unknown`,
		"host numa=(0, 1":                `line 1: numa=( is not closed by ) at the end of the line`,
		"host numa=(0, socket1)":         `line 1: " socket1" is no NUMA node; write its number, or -1 for one that is unknown`,
		head + "X NV1\nNV1 OK\n":         `line 3: row of GPU 1: "OK" is no link between GPUs; write X for itself, NV1 and so on, PIX, PXB, PHB, NODE or SYS`,
		head + "X X\nX X\n":              `line 2: row of GPU 0: "X" is no link between GPUs; write X for itself, NV1 and so on, PIX, PXB, PHB, NODE or SYS`,
	} {
		if _, err := ParseHostFile(text); err == nil || err.Error() != want {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}

// FuzzHostFile: whatever is written, it is refused with an error or describes
// GPUs that can be asked about.
func FuzzHostFile(f *testing.F) {
	paths, err := filepath.Glob("testdata/hosts/*")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		host, err := ParseHostFile(text)
		if err != nil {
			return
		}
		g, err := host.GPUs()
		if err != nil || g.Count() > 8 {
			return // rings over many unlike GPUs take long, by design
		}
		for k := range g.Count() + 1 {
			best, guaranteed := g.Range(g.All(), k)
			if guaranteed > best || guaranteed < 0 {
				t.Errorf("sets of %d: best %d, guaranteed %d", k, best, guaranteed)
			}
		}
		describeHost(g)
	})
}
