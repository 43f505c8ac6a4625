// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The table of cases names tests that exist.
func TestTheTableOfCasesNamesTests(t *testing.T) {
	const root = "../../../"
	text, err := os.ReadFile(root + "docs/cases.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`((?:Test|Fuzz)\w+) \(([\w/]+)\)`).FindAllStringSubmatch(string(text), -1)
	if len(named) < 60 {
		t.Fatalf("the table names %d tests", len(named))
	}
	sources := map[string]string{}
	for _, m := range named {
		name, dir := m[1], m[2]
		if sources[dir] == "" {
			sources[dir] = testSources(t, root+dir)
		}
		if !strings.Contains(sources[dir], "func "+name+"(") {
			t.Errorf("there is no %s in %s", name, dir)
		}
	}
}

func testSources(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}
