// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package docs has tests alone: that what the documents point to is there.
package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tutti-project/tutti/pkg/topology"
)

// documents are those that people read, relative to this folder.
func documents(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, pattern := range []string{"../*.md", "*.md", "design/*.md", "../examples/*.md", "../examples/*/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, files...)
	}
	if len(found) < 20 {
		t.Fatalf("only %d documents found", len(found))
	}
	return found
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	notWord = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	fence   = regexp.MustCompile("(?ms)^```.*?^```$")
)

func TestLinksLeadSomewhere(t *testing.T) {
	links := 0
	for _, doc := range documents(t) {
		for _, target := range link.FindAllStringSubmatch(fence.ReplaceAllString(read(t, doc), ""), -1) {
			links++
			if why := broken(t, doc, target[1]); why != "" {
				t.Errorf("%s: %s: %s", filepath.Clean(doc), target[1], why)
			}
		}
	}
	if links < 50 {
		t.Errorf("only %d links found", links)
	}
}

// broken says why a link of doc leads nowhere; links to other sites are not followed.
func broken(t *testing.T, doc, target string) string {
	t.Helper()
	if strings.Contains(target, "://") {
		return ""
	}
	path, anchor, _ := strings.Cut(target, "#")
	file := filepath.Join(filepath.Dir(doc), path)
	if path == "" {
		file = doc
	}
	if _, err := os.Stat(file); err != nil {
		return err.Error()
	}
	if anchor == "" {
		return ""
	}
	for _, title := range heading.FindAllStringSubmatch(read(t, file), -1) {
		if slug(title[1]) == anchor {
			return ""
		}
	}
	return "there is no such heading"
}

// slug is the anchor of a heading, as code hosts make it.
func slug(title string) string {
	return strings.ReplaceAll(strings.ToLower(notWord.ReplaceAllString(title, "")), " ", "-")
}

func TestCloudsNamesEveryLabelUnderItsLevel(t *testing.T) {
	inDocument := map[string][]string{} // labels by level
	var levels []string
	for line := range strings.Lines(read(t, "clouds.md")) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		switch {
		case strings.HasPrefix(line, "| where the nodes are"):
			levels = cells[1:]
		case strings.HasPrefix(line, "| ") && len(cells) == len(levels)+1:
			for i, cell := range cells[1:] {
				if label := strings.Trim(cell, " `"); label != "" {
					level := strings.TrimSpace(levels[i])
					inDocument[level] = append(inDocument[level], label)
				}
			}
		}
	}
	for _, level := range topology.DefaultLevels() {
		want := slices.Sorted(slices.Values(level.NodeLabels))
		got := slices.Sorted(slices.Values(inDocument[level.Name]))
		if !slices.Equal(got, want) {
			t.Errorf("%s: the document has %v, the program %v", level.Name, got, want)
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
