// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// RewriteSection replaces the section of a document that make with these arguments
// owns, or appends one.
func RewriteSection(doc, name, arguments, text string) error {
	begin := fmt.Sprintf("<!-- %s: written by make %s -->\n", name, arguments)
	end := fmt.Sprintf("<!-- %s: end -->\n", name)
	old, err := os.ReadFile(doc)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	before, rest, found := strings.Cut(string(old), begin)
	_, after, ended := strings.Cut(rest, end)
	switch {
	case found && !ended:
		return fmt.Errorf("%s: the section %q has no end; write %q behind it", doc, name, strings.TrimSpace(end))
	case len(old) == 0:
		before = "# Benchmarks\n\n"
	case !found:
		before += "\n"
	}
	return os.WriteFile(doc, []byte(before+begin+text+end+after), 0o644)
}
