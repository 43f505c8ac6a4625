// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"
)

func TestOnlySharedModulesMustAgree(t *testing.T) {
	product := `{"Go": "1.26.0",
		"Require": [{"Path": "a", "Version": "v1.0.0"}, {"Path": "b", "Version": "v1.0.0"}, {"Path": "mine", "Version": "v1.0.0"}],
		"Replace": [{"Old": {"Path": "a"}, "New": {"Path": "a", "Version": "v0.9.0"}}]}`
	cases := map[string]struct {
		tools string
		want  []string
	}{
		"equal": {`{"Go": "1.26.0", "Require": [{"Path": "a", "Version": "v1.0.0"}, {"Path": "theirs", "Version": "v2.0.0"}]}`, nil},
		"another requirement": {`{"Go": "1.26.0", "Require": [{"Path": "b", "Version": "v1.1.0"}, {"Path": "a", "Version": "v1.2.0"}]}`,
			[]string{"a", "b"}},
		"another replacement": {`{"Go": "1.26.0", "Replace": [{"Old": {"Path": "a"}, "New": {"Path": "fork", "Version": "v0.9.0"}}]}`,
			[]string{"replacement of a"}},
		"another Go": {`{"Go": "1.25.0"}`, []string{"go"}},
	}
	first, err := parse([]byte(product))
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			other, err := parse([]byte(tc.tools))
			if err != nil {
				t.Fatal(err)
			}
			if got := differences(first, other); !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
