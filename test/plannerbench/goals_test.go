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
		{bench: "Pass", hosts: 20_000, roles: 1}:                        300,
		{bench: "Gang", hosts: 20_000, load: "95%", pods: 64, roles: 1}: 900,
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(point{})); diff != "" {
		t.Error(diff)
	}
	ratios := goals[0].ratios(got)
	if len(ratios) != 1 || ratios[0].value != 3 {
		t.Errorf("ratios of %s: %v, want one of 3", goals[0].Name, ratios)
	}
}
