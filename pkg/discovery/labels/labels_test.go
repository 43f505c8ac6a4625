// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package labels

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/tutti-project/tutti/pkg/discovery"
	"github.com/tutti-project/tutti/pkg/discovery/discoverytest"
)

func TestSource(t *testing.T) {
	for name, tc := range map[string]struct {
		labels map[string]string
		err    error
		want   string
	}{
		"a count":               {map[string]string{countLabel: "8"}, nil, "8"},
		"no GPU":                {map[string]string{countLabel: "0"}, nil, "0"},
		"labels of others":      {map[string]string{"kubernetes.io/hostname": "n1"}, nil, "NoLabel"},
		"a count that is none":  {map[string]string{countLabel: "many"}, nil, "LabelInvalid"},
		"a count below nothing": {map[string]string{countLabel: "-1"}, nil, "LabelInvalid"},
		"no API server":         {nil, errors.New("connection refused"), "NodeUnreadable"},
	} {
		t.Run(name, func(t *testing.T) {
			source := New(func(context.Context) (map[string]string, error) { return tc.labels, tc.err })
			discoverytest.Run(t, source)
			facts, err := source.Discover(t.Context())
			got := ""
			var unavailable *discovery.Unavailable
			if errors.As(err, &unavailable) {
				got = unavailable.Reason
			} else {
				got = fmt.Sprint(facts.Told.GPUs)
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
