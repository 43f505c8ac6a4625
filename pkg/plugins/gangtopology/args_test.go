// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tutti-project/tutti/pkg/topology"
)

func TestArgs(t *testing.T) {
	cases := map[string]struct {
		json  string
		want  []topology.Level
		error string
	}{
		"none":                  {want: topology.DefaultLevels()},
		"empty":                 {json: "{}", want: topology.DefaultLevels()},
		"own levels":            {json: `{"levels":[{"name":"rack","nodeLabels":["example.com/rack"]}]}`, want: []topology.Level{{Name: "rack", NodeLabels: []string{"example.com/rack"}}}},
		"with kind and version": {json: `{"apiVersion":"x/v1","kind":"GangTopologyArgs"}`, want: topology.DefaultLevels()},
		"unknown field":         {json: `{"level":[]}`, error: `unknown field "level"`},
		"no labels":             {json: `{"levels":[{"name":"rack"}]}`, error: "args.levels[0].nodeLabels: Required value"},
		"bad label":             {json: `{"levels":[{"name":"rack","nodeLabels":["a b"]}]}`, error: "args.levels[0].nodeLabels[0]: Invalid value"},
		"bad name":              {json: `{"levels":[{"name":"Rack 1","nodeLabels":["a"]}]}`, error: "args.levels[0].name: Invalid value"},
		"twice the same":        {json: `{"levels":[{"name":"a","nodeLabels":["a"]},{"name":"a","nodeLabels":["b"]}]}`, error: "args.levels[1].name: Duplicate value"},
		"a built-in level":      {json: `{"levels":[{"name":"host","nodeLabels":["a"]}]}`, error: "args.levels[0].name: Duplicate value"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var object runtime.Object
			if tc.json != "" {
				object = &runtime.Unknown{Raw: []byte(tc.json)}
			}
			args, err := argsFrom(object)
			if tc.error != "" {
				if err == nil || !strings.Contains(err.Error(), tc.error) {
					t.Fatalf("error %v, want %q", err, tc.error)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, args.levels()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
