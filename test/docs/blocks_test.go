// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"strings"
)

// block is commands of a document and what they should print.
type block struct {
	line   int // of its first command
	script string
	want   []string // lines; … stands for anything
}

// blocksOf finds the fenced blocks marked sh, and on real nodes those marked sh kind
// as well: they are to be run, in order. One
// marked text right after, with nothing but blank lines between, is what they print.
// Blocks without a mark are for reading only.
func blocksOf(document string, onRealNodes bool) []block {
	var blocks []block
	mark, inside, joined := "", false, false // joined: only blank lines since a block marked sh
	for number, line := range strings.Split(document, "\n") {
		if strings.HasPrefix(line, "```") {
			inside = !inside
			if inside {
				mark = strings.TrimPrefix(line, "```")
				if mark == "sh kind" && onRealNodes {
					mark = "sh"
				}
				if mark == "sh" {
					blocks = append(blocks, block{line: number + 2})
				}
			} else {
				joined = mark == "sh"
			}
			continue
		}
		switch {
		case inside && mark == "sh":
			blocks[len(blocks)-1].script += line + "\n"
		case inside && mark == "text" && joined:
			blocks[len(blocks)-1].want = append(blocks[len(blocks)-1].want, line)
		case !inside && strings.TrimSpace(line) != "":
			joined = false
		}
	}
	return blocks
}

// prints tells whether a line of the output is the one wanted, whatever the width of
// its columns.
func prints(output, want string) bool {
	parts := strings.Split(strings.Join(strings.Fields(want), " "), "…")
	for line := range strings.Lines(output) {
		if matches(strings.Join(strings.Fields(line), " "), parts) {
			return true
		}
	}
	return false
}

func matches(line string, parts []string) bool {
	last := len(parts) - 1
	if !strings.HasPrefix(line, strings.TrimSpace(parts[0])) {
		return false
	}
	for _, part := range parts {
		_, after, found := strings.Cut(line, strings.TrimSpace(part))
		if !found {
			return false
		}
		line = after
	}
	return strings.TrimSpace(parts[last]) == "" || line == ""
}
