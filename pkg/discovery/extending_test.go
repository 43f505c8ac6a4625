// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheRecipeForASourceWorks follows docs/extending.md to the letter: its files are put beside the
// sources that there are, its row into the agent's list, and the example's tests are run and the
// agent built. What is put there exists in an overlay only.
func TestTheRecipeForASourceWorks(t *testing.T) {
	text, err := os.ReadFile("../../docs/extending.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## A source of facts about GPUs\n")
	if !found {
		t.Fatal("docs/extending.md has no section on sources")
	}
	blocks := regexp.MustCompile("(?s)\\*\\*`([^`]+)`\\*\\*[^`]*?(?:`[^`]+`[^`]*?)*?```go\n(.*?)```").FindAllStringSubmatch(section, -1)
	if len(blocks) != 3 {
		t.Fatalf("%d files in the section, want 3", len(blocks))
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	replace := map[string]string{}
	for i, block := range blocks {
		path, content := filepath.Join(root, block[1]), block[2]
		if strings.HasPrefix(content, "\t{") {
			content = withRow(t, path, content)
		}
		replace[path] = filepath.Join(t.TempDir(), filepath.Base(block[1]))
		if err := os.WriteFile(replace[path], []byte(content), 0o600); err != nil {
			t.Fatalf("file %d: %v", i, err)
		}
	}
	overlay := writeOverlay(t, replace)
	run := func(dir, name string, args ...string) {
		command := exec.CommandContext(t.Context(), name, args...)
		command.Dir = dir
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, output)
		}
	}
	tests := filepath.Join(t.TempDir(), "banned.test")
	run(root, "go", "test", "-c", "-vet=off", "-overlay="+overlay, "-o", tests, "./pkg/discovery/banned")
	run(filepath.Dir(tests), tests)
	run(root, "go", "build", "-overlay="+overlay, "./cmd/tutti-agent", "./pkg/discovery/banned") // two, so that no program is written
}

// withRow is the agent's list with one more row at its end.
func withRow(t *testing.T, path, row string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	list, rest, found := strings.Cut(string(text), "\n}\n\n// sourceOptions")
	if !found {
		t.Fatalf("%s has no list of sources that ends before sourceOptions", path)
	}
	list = strings.Replace(list, "import (\n", "import (\n\t\"github.com/tutti-project/tutti/pkg/discovery/banned\"\n", 1)
	return list + "\n" + strings.TrimSuffix(row, "\n") + "\n}\n\n// sourceOptions" + rest
}

func writeOverlay(t *testing.T, replace map[string]string) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "overlay.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
