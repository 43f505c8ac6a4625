// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestTakesOutOnlyWhatTheMachineCannotGive(t *testing.T) {
	missing, err := missingIn("Name:\tx\nCapBnd:\t000001fffeffffff\nCapAmb:\t0\n")
	if err != nil || !reflect.DeepEqual(missing, map[string]bool{"CAP_SYS_RESOURCE": true}) {
		t.Fatalf("missing %v, %v; want CAP_SYS_RESOURCE", missing, err)
	}
	spec := `{"process": {"capabilities": {"bounding": ["CAP_KILL", "CAP_SYS_RESOURCE"]}, "oomScoreAdj": -998, "args": ["a"],
		"rlimits": [{"type": "RLIMIT_CORE", "hard": 9, "soft": 9}, {"type": "RLIMIT_NOFILE", "hard": 1048576, "soft": 1024}]}, "root": {"path": "r"}}`
	want := `{"process": {"capabilities": {"bounding": ["CAP_KILL"]}, "oomScoreAdj": 0, "args": ["a"],
		"rlimits": [{"type": "RLIMIT_NOFILE", "hard": 20000, "soft": 1024}]}, "root": {"path": "r"}}`
	got, err := fit([]byte(spec), true, missing, 20000)
	if err != nil {
		t.Fatal(err)
	}
	var a, b any
	if json.Unmarshal(got, &a) != nil || json.Unmarshal([]byte(want), &b) != nil || !reflect.DeepEqual(a, b) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestFindsTheFileThatRuncReads(t *testing.T) {
	for name, tc := range map[string]struct {
		args   []string
		path   string
		inSpec bool
	}{
		"create with a bundle": {[]string{"--root", "/r", "create", "--bundle", "/b", "id"}, "/b/config.json", true},
		"run in this folder":   {[]string{"run", "id"}, "config.json", true},
		"exec":                 {[]string{"exec", "--process=/p", "id"}, "/p", false},
		"exec of a command":    {[]string{"exec", "id", "ls"}, "", false},
		"nothing that starts":  {[]string{"kill", "id"}, "", false},
	} {
		if path, inSpec := specFile(tc.args); path != tc.path || inSpec != tc.inSpec {
			t.Errorf("%s: got %q, %v; want %q, %v", name, path, inSpec, tc.path, tc.inSpec)
		}
	}
}
