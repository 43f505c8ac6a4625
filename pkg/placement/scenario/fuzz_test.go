// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"strings"
	"testing"
)

// FuzzAnswer: whatever is written, it is refused with an error or answered, and
// the answers answered again are the same.
func FuzzAnswer(f *testing.F) {
	for _, text := range small(f) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		answered, err := Answer(text, board)
		if err != nil {
			return
		}
		again, err := Answer(answered, board)
		if err != nil || again != answered {
			t.Errorf("answered:\n%s\nand again: %v\n%s", answered, err, again)
		}
	})
}

// small cuts the specification into scenarios of one cluster and one gang.
func small(f *testing.F) []string {
	var texts []string
	files(f, func(_, text string) {
		cluster := ""
		for part := range strings.SplitSeq(text, "\n\n") {
			if begin := strings.Index("\n"+part, "\ncluster"); begin >= 0 {
				cluster = part[begin:]
			} else if begin := strings.Index("\n"+part, "\nplace"); begin >= 0 {
				texts = append(texts, cluster+"\n\n"+strings.TrimSpace(part[begin:])+"\n")
			}
		}
	})
	return texts
}
