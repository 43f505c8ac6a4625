// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCasesAreInTheTable compares the numbers in the scenarios' comments with docs/placement-cases.md.
func TestCasesAreInTheTable(t *testing.T) {
	heading, number := regexp.MustCompile(`(?m)^# Cases? [^:]*:`), regexp.MustCompile(`\d+`)
	var shown, listed []string
	err := filepath.WalkDir("testdata", func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == "fuzz" {
				return filepath.SkipDir
			}
			return nil
		}
		text, err := os.ReadFile(path)
		for _, line := range heading.FindAllString(string(text), -1) {
			for _, n := range number.FindAllString(line, -1) {
				shown = append(shown, n+" "+filepath.ToSlash(strings.TrimPrefix(path, "testdata"+string(filepath.Separator))))
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../docs/placement-cases.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range regexp.MustCompile(`(?m)^\| (\d+) \|.*\| (\S+) \|$`).FindAllStringSubmatch(string(text), -1) {
		listed = append(listed, row[1]+" "+row[2])
	}
	slices.Sort(shown)
	slices.Sort(listed)
	if diff := cmp.Diff(slices.Compact(shown), listed); diff != "" {
		t.Errorf("cases in scenarios, and in the table:\n%s", diff)
	}
}
