// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"k8s.io/component-base/metrics/legacyregistry"
)

// TestMetricsAreDocumented compares what is served with the table of docs/metrics.md.
func TestMetricsAreDocumented(t *testing.T) {
	registerMetrics()
	sourceUp.WithLabelValues("nvml").Set(1)
	gpuCount.WithLabelValues("all").Set(8)
	writes.WithLabelValues("spec", "success").Inc()
	lastWrite.Set(1)
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), "tutti_agent_") {
			continue
		}
		found++
		row := fmt.Sprintf("| `%s` | %s |", family.GetName(), strings.ToLower(family.GetType().String()))
		_, rest, ok := strings.Cut(string(text), row)
		labels, _, _ := strings.Cut(rest, "|")
		if !ok {
			t.Errorf("docs/metrics.md has no row %q", row)
		}
		for _, label := range family.GetMetric()[0].GetLabel() {
			if !strings.Contains(labels, "`"+label.GetName()+"`") {
				t.Errorf("docs/metrics.md: the row of %s lacks its label %s", family.GetName(), label.GetName())
			}
		}
	}
	if rows := strings.Count(string(text), "| `tutti_agent_"); found == 0 || rows != found {
		t.Errorf("docs/metrics.md has %d rows of the agent, which serves %d metrics", rows, found)
	}
}
