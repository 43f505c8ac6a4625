// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package clusterspec

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheRecipeForAFrameworkWorks follows docs/extending.md to the letter in a copy of this package: its code becomes
// a file, its row a row, its golden a golden, and the tests of the copy pass.
func TestTheRecipeForAFrameworkWorks(t *testing.T) {
	text, err := os.ReadFile("../../docs/extending.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n## A framework\n")
	if !ok {
		t.Fatal("docs/extending.md has no section on a framework")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	dir := t.TempDir()
	copyPackage(t, dir)
	for file, content := range recipe(t, section) {
		path := filepath.Join(dir, file)
		if file == "clusterspec.go" { // the recipe shows the row only
			source, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			const end = "{\"tensorflow\", tensorflow},\n"
			if !strings.Contains(string(source), end) {
				t.Fatal("the table of injectors does not end as this test believes")
			}
			content = strings.Replace(string(source), end, end+content, 1)
		}
		write(t, path, content)
	}
	command := exec.Command("go", "test", ".")
	command.Dir = dir
	command.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("the recipe's package: %v\n%s", err, out)
	}
}

// copyPackage copies everything but this test, which would follow the recipe in the copy of the copy.
func copyPackage(t *testing.T, dir string) {
	t.Helper()
	if err := os.CopyFS(dir, os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "extending_test.go")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "go.mod"), "module clusterspec\n\ngo 1.26\n")
}

// recipe is the content of the code blocks by the name of the file on the line before: **`name`**.
func recipe(t *testing.T, section string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, block := range regexp.MustCompile("(?s)\\*\\*`pkg/clusterspec/([^`]+)`\\*\\*.*?\n```[a-z]*\n(.*?)```").FindAllStringSubmatch(section, -1) {
		files[block[1]] = block[2]
	}
	for _, want := range []string{"clusterspec.go", "torch.go", "testdata/torch/normal.txt"} {
		if files[want] == "" {
			t.Fatalf("the recipe does not say what to write in %s", want)
		}
	}
	return files
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
