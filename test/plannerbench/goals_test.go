// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseTakesTheLeastOfAllRounds(t *testing.T) {
	const text = `goos: linux
BenchmarkPass/hosts=20000/roles=1-2    10    400 ns/op    8 B/op    1 allocs/op
BenchmarkGang/hosts=20000/load=95%/pods=64/roles=1-2    10    900 ns/op    8 B/op    1 allocs/op
BenchmarkPass/hosts=20000/roles=1-2    10    300 ns/op    8 B/op    1 allocs/op
PASS
`
	got, err := parse(bufio.NewScanner(strings.NewReader(text)))
	if err != nil {
		t.Fatal(err)
	}
	want := figures{
		{bench: "Pass", hosts: 20_000, roles: 1}:                        {300, 1},
		{bench: "Gang", hosts: 20_000, load: "95%", pods: 64, roles: 1}: {900, 1},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(point{}, figure{})); diff != "" {
		t.Error(diff)
	}
	ratios := goals[0].ratios(got)
	if len(ratios) != 1 || ratios[0].value != 3 {
		t.Errorf("ratios of %s: %v, want one of 3", goals[0].Name, ratios)
	}
}

func TestSectionHasARowForEachGang(t *testing.T) {
	f := figures{
		{bench: "Pass", hosts: 20_000, roles: 1}:                           {100_000, 1},
		{bench: "Gang", hosts: 20_000, load: "80%", pods: 4096, roles: 1}:  {1_234_567, 9},
		{bench: "Changed", hosts: 20_000, load: "no", pods: 64, roles: 2}:  {37_400, 1_076},
		{bench: "Changed", hosts: 20_000, load: "80%", pods: 64, roles: 2}: {38_600, 76},
	}
	got := section(f, []verdict{{goal: goals[0], median: 2.5, worst: ratio{"a / b", 2.75}}}, 1000)
	for _, want := range []string{
		"Other programs ran as well (load 1000.0)",
		"| a plan from scratch, as many times a plain pass over all hosts; from 5,000 hosts on, gangs up to 64 | <=3 | 2.50 | 2.75: a / b |\n",
		"| gang | 20,000 hosts |\n|---|---|\n| 64 pods, 1 role | - |\n| 64 pods, 2 roles | - |\n| 4,096 pods, 1 role | 1,235 |\n",
		"| a plain pass over all hosts, 1 role | 100 |\n",
		"| 64 pods, 2 roles | - | - | - | - | - | 39 (76) | - | 37 (1,076) |\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}
