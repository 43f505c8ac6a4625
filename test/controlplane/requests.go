// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var verbOf = regexp.MustCompile(`verb="(\w+)"`)

// Requests are those that the API server has counted for a resource, by verb.
func (c *ControlPlane) Requests(ctx context.Context, resource string) (map[string]float64, error) {
	text, err := c.Client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking the API server for its metrics: %w", err)
	}
	counts := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		series, value, _ := strings.Cut(line, "} ")
		verb := verbOf.FindStringSubmatch(series)
		if verb == nil || !strings.HasPrefix(series, "apiserver_request_total{") || !strings.Contains(series, fmt.Sprintf("resource=%q", resource)) {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil {
			return nil, fmt.Errorf("reading the API server's metrics: %w", err)
		}
		counts[verb[1]] += n
	}
	return counts, nil
}
