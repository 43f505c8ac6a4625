// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tutti-project/tutti/pkg/discovery"
	"github.com/tutti-project/tutti/pkg/discovery/discoverytest"
)

const node = `
apiVersion: topology.tutti.dev/v1alpha1
kind: NodeTopology
metadata: {name: n1}
spec:
  gpus: [{index: 0, uuid: GPU-a}, {index: 1, uuid: GPU-b}]
  links: [{from: 0, to: 1, nvLinks: 4, pcie: SYS}]
`

func TestSource(t *testing.T) {
	for name, tc := range map[string]struct{ content, reason, free string }{
		"no status":        {node, "", "GPU-a GPU-b"},
		"some are free":    {node + "status: {free: [GPU-b]}", "", "GPU-b"},
		"none is":          {node + "status: {free: []}", "", ""},
		"one is given":     {node + "status: {given: [{namespace: n, pod: p, gpus: [GPU-b]}]}", "", "GPU-a"},
		"an unhealthy one": {node + "status: {unhealthy: [{uuid: GPU-a, reason: Xid, message: m}]}", "", "GPU-b"},
		"other nodes":      {strings.Replace(node, "n1", "n2", 1) + "---\n---\n" + strings.Replace(node, "n1", "n3", 1), "NodeNotInFile", ""},
		"a name twice":     {node + "---" + node, "FileInvalid", ""},
		"a misspelt field": {node + "stats: {}", "FileInvalid", ""},
		"another kind":     {"apiVersion: v1\nkind: Node\nmetadata: {name: n1}", "FileInvalid", ""},
		"no file":          {"", "FileNotFound", ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "topologies.yaml")
			if tc.content != "" {
				if err := os.WriteFile(path, []byte(tc.content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			source := New(path, "n1")
			discoverytest.Run(t, source)
			facts, err := source.Discover(t.Context())
			var unavailable *discovery.Unavailable
			if errors.As(err, &unavailable) {
				err = errors.New(unavailable.Reason)
			}
			if got := reason(err); got != tc.reason {
				t.Fatalf("got %q, want %q", got, tc.reason)
			}
			if diff := cmp.Diff(tc.free, strings.Join(facts.Free(), " ")); diff != "" {
				t.Errorf("free (-want +got):\n%s", diff)
			}
		})
	}
}

// TestErrorsSayWhere, by lines of the file, and what.
func TestErrorsSayWhere(t *testing.T) {
	const kinds = `apiVersion and kind are %q and %q; want "topology.tutti.dev/v1alpha1" and "NodeTopology", a document for each node`
	other := strings.Replace(node, "n1", "n2", 1)
	for name, tc := range map[string]struct{ content, want string }{
		"no YAML":         {node + "---\n# second\n" + other + "  bad: {x\n", "lines 9 to 17: yaml: line 1"},
		"a field twice":   {node + "---" + other + "spec: {}\n", `lines 9 to 15: line 15: key "spec" already set in map`},
		"a misspelt one":  {node + "--- # second" + other + "stats: {}\n", `lines 9 to 15: unknown field "stats"`},
		"of another type": {strings.Replace(node, "nvLinks: 4", "nvLinks: four", 1), "lines 1 to 7: cannot unmarshal string into Go struct field Link.spec.links.nvLinks of type int32"},
		"a list":          {"apiVersion: v1\nkind: List\nitems: []\n", "lines 1 to 3: " + fmt.Sprintf(kinds, "v1", "List")},
		"no kind":         {node + "---\nspec: {}\n", "lines 9 to 9: " + fmt.Sprintf(kinds, "", "")},
		"no name":         {strings.Replace(node, "{name: n1}", "{}", 1), `lines 1 to 7: metadata.name "" is empty or used before`},
		"a name twice":    {node + "---" + node, `lines 9 to 14: metadata.name "n1" is empty or used before`},
	} {
		topologies, err := Parse("f.yaml", []byte(tc.content))
		if err == nil || !strings.HasPrefix(err.Error(), "f.yaml, "+tc.want) {
			t.Errorf("%s: %d objects, %v\nwant f.yaml, %s", name, len(topologies), err, tc.want)
		}
	}
}

// TestHardwareAlone: what the file says of pods is left to the source that asks the kubelet.
func TestHardwareAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "topologies.yaml")
	content := node + "status: {free: [GPU-a], unhealthy: [{uuid: GPU-b, reason: Xid, message: m}]}"
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	source := NewHardware(path, "n1")
	discoverytest.Run(t, source)
	facts, err := source.Discover(t.Context())
	if err != nil || len(facts.Hardware.GPUs) != 2 || len(facts.Unhealthy) != 1 || facts.Devices != nil {
		t.Errorf("facts %+v, error %v", facts, err)
	}
	kubelet := discovery.Facts{Devices: &discovery.Devices{Allocatable: []string{"GPU-a", "GPU-b"}, Given: []discovery.Given{{Namespace: "n", Pod: "p", IDs: []string{"GPU-a"}}}}}
	if free := discovery.Merge(facts, kubelet).Free(); len(free) > 0 {
		t.Errorf("free are %v, though one GPU is given and the other unhealthy", free)
	}
}

func reason(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
