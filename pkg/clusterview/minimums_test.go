// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tutti-project/tutti/pkg/apis/tutti"
)

func TestRoleMinimumsOf(t *testing.T) {
	cases := map[string]struct {
		value string
		want  []RoleMinimum
		error string
	}{
		"two roles":                {"ps=1,worker=4", []RoleMinimum{{"ps", 1}, {"worker", 4}}, ""},
		"blanks do not matter":     {" worker = 0 , ps=2", []RoleMinimum{{"worker", 0}, {"ps", 2}}, ""},
		"nothing":                  {"", nil, `annotation tutti.dev/role-minimums: "": "" names no role and number; want role=n`},
		"a comma too many":         {"ps=1,", nil, `"" names no role and number`},
		"no number":                {"ps=1,worker", nil, `"worker" names no role and number`},
		"a number below 0":         {"worker=-1", nil, `"worker=-1" has no number from 0 up`},
		"a number beyond counting": {"worker=9999999999", nil, `has no number from 0 up`},
		"a role named twice":       {"ps=1,ps=2", nil, `"ps=2" names a role again`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := RoleMinimumsOf(map[string]string{tutti.RoleMinimumsAnnotation: tc.value})
			if tc.error != "" {
				if err == nil || !strings.Contains(err.Error(), tc.error) {
					t.Errorf("error %v, want %q", err, tc.error)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
				t.Errorf("error %v, -want +got:\n%s", err, diff)
			}
		})
	}
	if got, err := RoleMinimumsOf(nil); got != nil || err != nil {
		t.Errorf("without the annotation: %v, %v", got, err)
	}
}
