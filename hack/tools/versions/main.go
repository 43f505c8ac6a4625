// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Command versions checks that go.mod files agree: a module that several of
// them require or replace must have one version. The test control plane is then
// made of the very code that the product is built with, and the build cache
// serves both.
//
//	versions go.mod hack/tools/go.mod
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
)

// goMod is what `go mod edit -json` prints, as far as it matters here.
type goMod struct {
	Go      string
	Require []module
	Replace []struct{ Old, New module }
}

type module struct{ Path, Version string }

func main() {
	files := os.Args[1:]
	if len(files) < 2 {
		fmt.Fprintln(os.Stderr, "usage: versions FILE FILE...")
		os.Exit(2)
	}
	first, err := versions(files[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, "versions:", err)
		os.Exit(1)
	}
	failed := false
	for _, file := range files[1:] {
		other, err := versions(file)
		if err != nil {
			fmt.Fprintln(os.Stderr, "versions:", err)
			os.Exit(1)
		}
		for _, path := range differences(first, other) {
			failed = true
			fmt.Fprintf(os.Stderr, "versions: %s is %s in %s and %s in %s: make them equal with go get\n",
				path, first[path], files[0], other[path], file)
		}
	}
	if failed {
		os.Exit(1)
	}
}

func versions(file string) (map[string]string, error) {
	out, err := exec.Command("go", "mod", "edit", "-json", file).Output()
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	return parse(out)
}

// parse gives the version of every module, and what replaces it, by path. The
// Go version itself is there as "go".
func parse(data []byte) (map[string]string, error) {
	var mod goMod
	if err := json.Unmarshal(data, &mod); err != nil {
		return nil, err
	}
	byPath := map[string]string{"go": mod.Go}
	for _, m := range mod.Require {
		byPath[m.Path] = m.Version
	}
	for _, r := range mod.Replace {
		byPath["replacement of "+r.Old.Path] = r.New.Path + " " + r.New.Version
	}
	return byPath, nil
}

// differences lists the paths that both have in different versions.
func differences(a, b map[string]string) []string {
	var paths []string
	for path, version := range a {
		if other, both := b[path]; both && other != version {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}
