// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tutti-project/tutti/pkg/topology"
)

var rewrite = flag.Bool("rewrite", false, "write the planner's answers into the scenarios")

const specification = "../testdata"

// board reads a fixture of the topology package.
func board(name string) (*topology.GPUs, error) {
	text, err := os.ReadFile(filepath.Join("../../topology/testdata/hosts", filepath.Base(name)))
	if err != nil {
		return nil, err
	}
	f, err := topology.ParseHostFile(string(text))
	if err != nil {
		return nil, err
	}
	return f.GPUs()
}

// files calls do for every scenario of the specification.
func files(t testing.TB, do func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir(specification, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if err == nil && d.Name() == "fuzz" {
				return filepath.SkipDir
			}
			return err
		}
		text, err := os.ReadFile(path)
		do(path, string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestSpecification compares the planner with its specification.
//
//	go test ./pkg/placement/scenario -run Specification -rewrite
//
// writes the answers anew; commit the difference only if you understand it.
func TestSpecification(t *testing.T) {
	files(t, func(path, text string) {
		t.Run(strings.TrimPrefix(filepath.ToSlash(path), specification+"/"), func(t *testing.T) {
			got, err := Answer(text, board)
			if err != nil {
				t.Fatal(err)
			}
			if *rewrite {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(strings.Split(text, "\n"), strings.Split(got, "\n")); diff != "" {
				t.Errorf("answers (-specified +got):\n%s", diff)
			}
		})
	})
}

func TestMalformedScenariosAreRefused(t *testing.T) {
	const drawn = "cluster levels=(rack)\nr1: n1(8) n2(8)\n----\n\n"
	for _, tc := range []struct{ text, want string }{
		{"cluster", "line 1: no line ---- and new line end what begins here"},
		{"cluster\n----", "line 1: no line ---- and new line end what begins here"},
		{"----\n", "line 1: ends a step, but none begins before it; write cluster or place"},
		{"#\nclutser\n----\n", `line 2: "clutser" begins no step; those are cluster and place`},
		{"place gang=a\n----\n", "line 1: no cluster is drawn before it; write one: cluster levels=(rack)"},
		{"cluster level=(rack)\n----\n", `line 1: "level" is not known here; write cluster levels=(zone, rack), the widest first`},
		{"cluster levels=(rack\n----\n", `line 1: "levels=(rack" is not closed by )`},
		{"cluster levels)=(\n----\n", `line 1: "levels)=(" is not closed by )`},
		{"cluster levels=\n----\n", `line 1: "levels=" says nothing; write key, key=value or key=(value, value)`},
		{"cluster\nr1\n----\n", `line 2: "r1" names no hosts; write path: host(GPUs) host(GPUs), or a remark: not, kind, links, empty or runs`},
		{"cluster\nr1: n1(8)\n----\n", `line 2: the path "r1" is longer than the 0 levels`},
		{"cluster\n-: n1\n----\n", `line 2: "n1" is no host; write its name and free GPUs: n1(8)`},
		{"cluster\n-: n1(many)\n----\n", "line 2: gpu=many is no whole number from -1099511627776 to 1099511627776"},
		{"cluster\n-: n1(8 gpus=8)\n----\n", `line 2: "gpus" is not known here`},
		{"cluster\n-: n1(8)\n-: n1(8)\n----\n", "line 3: host n1 is drawn twice"},
		{"cluster\n-: n[4-1](8)\n----\n", `line 2: "n[4-1]" is no range of at most 10000 hosts; write n[1-4]`},
		{"cluster\n-: n[1-9999](8) m[1-9999](8)\n----\n", "line 2: more than 10000 hosts"},
		{"cluster\n-: n1(8)\nnot n2: taint\n----\n", `line 3: no host is named "n2"`},
		{"cluster\n-: n1(8)\nnot n1:\n----\n", "line 3: no reason; write it behind the colon"},
		{"cluster\n-: n1(8)\nlinks n1: dgx-9\n----\n", "line 3: board dgx-9: open ../../topology/testdata/hosts/dgx-9: no such file or directory"},
		{"cluster\n-: n1(8)\nlinks n1: dgx-1v free=0,8\n----\n", "line 3: free=8 is no whole number from 0 to 7"},
		{"cluster\n-: n1(8)\nlinks n1: dgx-1v picks=nobody\n----\n", `line 3: "picks" is not known here; write a board, and if need be free=0,3 and picks=planner or picks=plugin`},
		{"cluster\n-: n1(8)\nruns low: gpu=1\n----\n", "line 3: what runs has a name and hosts; write runs low n1 n2: gpu=4"},
		{"cluster\n-: n1(8)\nruns low n1 n1: gpu=1\n----\n", "line 3: low runs twice on n1; write each host once"},
		{"cluster\n-: n1(8)\nruns low n1: priority=high\n----\n", "line 3: priority=high is no whole number from 0 to 1099511627776"},
		{drawn + "place within=rack\n----\n", "line 5: the gang has no name; write place gang=name"},
		{drawn + "place gang=a within=zone\n----\n", `line 5: no level is named "zone"; write one of the cluster's levels, or host`},
		{drawn + "place gang=a inside=zone\n----\n", `line 5: "inside" is not known here; a gang has gang, within, prefer, slices, anchors, keep and evict`},
		{drawn + "place gang=a slices=4\n----\n", "line 5: slices want a size and a level: slices=(4, rack)"},
		{drawn + "place gang=a anchors=(n9)\n----\n", `line 5: no host is named "n9"`},
		{drawn + "place gang=(a, b)\n----\n", "line 5: gang has 2 values, want one: gang=value"},
		{drawn + "place gang=a\nworker pods=some\n----\n", "line 6: pods=some is no whole number from 0 to 10000"},
		{drawn + "place gang=a\nworker pods=9000\nps pods=9000\n----\n", "line 7: pods=9000 is no whole number from 0 to 1000"},
		{drawn + "place gang=a\nworker gpu=-1\n----\n", "line 6: gpu=-1 is no whole number from 0 to 1099511627776"},
		{drawn + "place gang=a\nworker link=wire\n----\n", `line 6: "wire" is no link that can be asked for; those are any, numa, pcie, nvlink`},
		{drawn + "place gang=a\n\nworker pods=1\n----\n", "line 6: is empty; write the step without empty lines"},
	} {
		if _, err := Answer(tc.text, board); err == nil || err.Error() != tc.want {
			t.Errorf("%q:\n got %v\nwant %s", tc.text, err, tc.want)
		}
	}
}

// TestEveryBoardIsAHost finds each fixture of the topology package in links/boards,
// for the device plugin and for the planner to pick from.
func TestEveryBoardIsAHost(t *testing.T) {
	text, err := os.ReadFile(specification + "/links/boards")
	if err != nil {
		t.Fatal(err)
	}
	fixtures, err := os.ReadDir("../../topology/testdata/hosts")
	if err != nil || len(fixtures) < 20 {
		t.Fatalf("%d fixtures: %v", len(fixtures), err)
	}
	for _, f := range fixtures {
		for _, picks := range []string{"plugin", "planner"} {
			if line := "links " + f.Name() + ": " + f.Name() + " picks=" + picks + "\n"; !strings.Contains(string(text), line) {
				t.Errorf("no line %q", line)
			}
		}
	}
}
