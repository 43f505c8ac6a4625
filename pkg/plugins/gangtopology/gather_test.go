// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/tutti-project/tutti/pkg/clusterview"
)

func TestMinimumsSplitOverRoles(t *testing.T) {
	cases := map[string]struct {
		pods   []int
		wanted int
		want   []int
	}{
		"all are needed":                     {[]int{2, 4}, 6, []int{2, 4}},
		"more than exist":                    {[]int{2, 4}, 7, []int{2, 4}},
		"the largest role gives its surplus": {[]int{2, 4}, 5, []int{2, 3}},
		"then the next":                      {[]int{2, 4}, 1, []int{1, 0}},
		"none is needed":                     {[]int{2, 4}, 0, []int{0, 0}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			roles := make([]clusterview.Role, len(tc.pods))
			for i, n := range tc.pods {
				roles[i].Pods = make([]*v1.Pod, n)
			}
			if got := minimums(roles, tc.wanted); !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
