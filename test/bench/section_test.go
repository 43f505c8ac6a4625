// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"os"
	"path/filepath"
	"testing"
)

func TestRewritingTouchesOneSectionAlone(t *testing.T) {
	doc := filepath.Join(t.TempDir(), "benchmarks.md")
	for _, section := range [][2]string{{"a", "one\n"}, {"b", "two\n"}, {"a", "three\n"}} {
		if err := RewriteSection(doc, section[0], "bench-"+section[0], section[1]); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(doc)
	const want = "# Benchmarks\n\n<!-- a: written by make bench-a -->\nthree\n<!-- a: end -->\n\n<!-- b: written by make bench-b -->\ntwo\n<!-- b: end -->\n"
	if err != nil || string(got) != want {
		t.Errorf("%v, got:\n%s\nwant:\n%s", err, got, want)
	}
	if err := os.WriteFile(doc, []byte("<!-- a: written by make bench-a -->\nno end"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := RewriteSection(doc, "a", "bench-a", "four\n"); err == nil {
		t.Error("a section without an end is rewritten")
	}
}
