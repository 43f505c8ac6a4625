// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// documents are those whose blocks marked sh are run, in this order on one cluster;
// one that is given has other nodes than two of them speak of.
func documents() []string {
	if *kubeconfig != "" {
		return []string{"docs/quick-start.md"}
	}
	return []string{"README.md", "docs/quick-start.md", "docs/kubectl-tutti.md"}
}

// patience bounds one block.
const patience = 6 * time.Minute

// TestDocumentsSayWhatWorks runs each document's commands in a folder that has the
// checkout's manifests and examples and into which they may write.
func TestDocumentsSayWhatWorks(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range documents() {
		t.Run(document, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(root, document))
			if err != nil {
				t.Fatal(err)
			}
			blocks := blocksOf(string(text), *kubeconfig != "")
			if len(blocks) == 0 {
				t.Fatal("no block is marked sh")
			}
			dir := t.TempDir()
			for _, folder := range []string{"manifests", "examples"} {
				if err := os.Symlink(filepath.Join(root, folder), filepath.Join(dir, folder)); err != nil {
					t.Fatal(err)
				}
			}
			for _, b := range blocks {
				output, err := run(t, dir, root, b.script)
				if err != nil {
					t.Fatalf("%s, line %d: %v\n%s\nprints\n%s", document, b.line, err, b.script, output)
				}
				for _, want := range b.want {
					if !prints(output, want) {
						t.Errorf("%s, line %d:\n%s\nprints\n%s\nwant a line\n%s", document, b.line, b.script, output, want)
					}
				}
			}
		})
	}
}

// run is what a user's shell does with the cluster and the programs at hand.
func run(t *testing.T, dir, root, script string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "KUBECONFIG="+cmp.Or(*kubeconfig, plane.Kubeconfig), "PATH="+filepath.Join(root, "bin")+":"+os.Getenv("PATH"))
	output, err := cmd.CombinedOutput()
	return string(output), err
}

func TestBlocks(t *testing.T) {
	document := strings.ReplaceAll(`A text
'''
not run
'''
'''sh
one
two
'''

'''text
says …
'''
'''text
not joined to anything
'''
'''sh
three
'''
'''sh kind
four
'''
a word between
'''text
for reading
'''
`, "'''", "```")
	blocks := blocksOf(document, false)
	if len(blocks) != 2 || blocks[0].script != "one\ntwo\n" || blocks[1].script != "three\n" {
		t.Fatalf("%+v", blocks)
	}
	if len(blocks[0].want) != 1 || blocks[0].want[0] != "says …" || blocks[1].want != nil {
		t.Errorf("%+v", blocks)
	}
	if real := blocksOf(document, true); len(real) != 3 || real[2].script != "four\n" {
		t.Errorf("on real nodes: %+v", real)
	}
	if blocks[0].line != 6 {
		t.Errorf("the first command is said to be in line %d, want 6", blocks[0].line)
	}
}

func TestPrints(t *testing.T) {
	const output = "NAME   STATE\njob-1  waits for room\n"
	for want, is := range map[string]bool{
		"NAME STATE":            true,
		"job-1  waits for room": true,
		"job-1 …":               true,
		"… room":                true,
		"job-1 … room":          true,
		"job-1 waits":           false,
		"waits for room":        false,
		"job-2 …":               false,
		"job-1 … queue":         false,
	} {
		if got := prints(output, want); got != is {
			t.Errorf("%q: %v, want %v", want, got, is)
		}
	}
}
