// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
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
	text := readDoc(t)
	for _, row := range regexp.MustCompile(`(?m)^\| (\d+) \|.*\| ([a-z-]+/[a-z-]+) \|$`).FindAllStringSubmatch(text, -1) {
		listed = append(listed, row[1]+" "+row[2])
	}
	slices.Sort(shown)
	slices.Sort(listed)
	if diff := cmp.Diff(slices.Compact(shown), listed); diff != "" {
		t.Errorf("cases in scenarios, and in the table:\n%s", diff)
	}
}

// reported are the numbers of all cases that are not about queues, autoscalers or
// what people are told.
const reported = "1 2 3 4 6 7 8 10 11 12 13 14 15 16 18 19 20 21 23 24 25 27 28 29 31 32 33 34 35 " +
	"36 38 39 41 42 44 45 46 48 50 51 52 53 55 56 58 59 61 62 63 64 65 67 69"

// TestEveryCaseIsInOneTable also finds the tests that the tables name.
func TestEveryCaseIsInOneTable(t *testing.T) {
	text := readDoc(t)
	var listed []int
	for _, row := range regexp.MustCompile(`(?m)^\| (\d+) \|`).FindAllStringSubmatch(text, -1) {
		n, err := strconv.Atoi(row[1])
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, n)
	}
	slices.Sort(listed)
	if got := strings.Trim(fmt.Sprint(listed), "[]"); got != reported {
		t.Errorf("cases in the tables:\n%s\nwant:\n%s", got, reported)
	}
	for _, row := range regexp.MustCompile(`(?m)(Test[\w, ]+) \(([\w/]+)\) \|$`).FindAllStringSubmatch(text, -1) {
		sources := readTests(t, filepath.Join("..", "..", filepath.FromSlash(row[2])))
		for name := range strings.SplitSeq(row[1], ", ") {
			if !strings.Contains(sources, "func "+name+"(") {
				t.Errorf("there is no %s in %s", name, row[2])
			}
		}
	}
}

func readDoc(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/placement-cases.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func readTests(t *testing.T, dir string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}
