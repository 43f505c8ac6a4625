// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"os/exec"
	"strings"
	"testing"
)

// TestImportsOnlyTheStandardLibrary keeps the planner testable in a second and
// usable from any program.
func TestImportsOnlyTheStandardLibrary(t *testing.T) {
	const module = "github.com/tutti-project/tutti/"
	allowed := map[string]bool{module + "pkg/placement": true, module + "pkg/topology": true}
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	for path := range strings.FieldsSeq(string(out)) {
		if !allowed[path] {
			t.Errorf("package placement depends on %s; it may import the standard library and package topology only", path)
		}
	}
}
