// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestTryoutNamesTheFirstPodWithoutAPlace(t *testing.T) {
	cases := map[string]struct {
		tried []types.UID
		seats map[types.UID]bool
		want  types.UID
	}{
		"nobody was tried":                {nil, nil, ""},
		"all have places":                 {[]types.UID{"a", "b"}, map[types.UID]bool{"a": true, "b": true}, ""},
		"the first has none, and it ends": {[]types.UID{"a"}, nil, "a"},
		"the last has none":               {[]types.UID{"a", "b"}, map[types.UID]bool{"a": true}, "b"},
		"the second, and it goes on":      {[]types.UID{"a", "b", "c"}, map[types.UID]bool{"a": true, "c": true}, "b"},
		"two of them":                     {[]types.UID{"a", "b", "c"}, map[types.UID]bool{"b": true}, "a"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var tried tryout
			for _, pod := range tc.tried {
				tried.begin(pod)
				if tc.seats[pod] {
					tried.seat(pod)
				}
			}
			if got := tried.first(); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
