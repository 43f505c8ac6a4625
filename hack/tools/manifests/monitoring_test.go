// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"encoding/json"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"sigs.k8s.io/yaml"
)

const monitoring = root + "/manifests/monitoring"

// TestEveryAlertHasItsRunbook in docs/runbook.md, with what each section must say, and every section its alert.
func TestEveryAlertHasItsRunbook(t *testing.T) {
	text, err := os.ReadFile(root + "/docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, section := range strings.Split(string(text), "\n## ")[1:] {
		title, body, _ := strings.Cut(section, "\n")
		if strings.HasPrefix(title, "Tutti") {
			sections[title] = body
		}
	}
	var want []string
	for _, group := range rules(t).Groups {
		for _, rule := range group.Rules {
			if rule.Alert == "" {
				continue
			}
			want = append(want, rule.Alert)
			for _, part := range []string{"**Means:**", "**Look at:**", "**Do:**"} {
				if !strings.Contains(sections[rule.Alert], part) {
					t.Errorf("docs/runbook.md says of %s nothing under %s", rule.Alert, part)
				}
			}
			if url := rule.Annotations["runbook_url"]; !strings.HasSuffix(url, "docs/runbook.md#"+strings.ToLower(rule.Alert)) {
				t.Errorf("%s refers to %s", rule.Alert, url)
			}
			if rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" {
				t.Errorf("%s lacks a severity or a summary", rule.Alert)
			}
		}
	}
	var got []string
	for title := range sections {
		got = append(got, title)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("alerts and sections (-rules +runbook):\n%s", diff)
	}
}

func TestComponentMonitoringAddsToTheBase(t *testing.T) {
	var added []string
	base := kustomize(t)
	for key := range kustomize(t, "monitoring") {
		if base[key] == nil {
			added = append(added, key)
		}
	}
	slices.Sort(added)
	want := []string{
		"monitoring.coreos.com/v1 PodMonitor tutti-system/tutti-agent",
		"monitoring.coreos.com/v1 PrometheusRule tutti-system/tutti",
		"monitoring.coreos.com/v1 ServiceMonitor tutti-system/tutti",
		"rbac.authorization.k8s.io/v1 ClusterRoleBinding <nil>/tutti-metrics-reader",
		"v1 ConfigMap tutti-system/tutti-dashboard",
	}
	if diff := cmp.Diff(want, added); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// rules are read as Prometheus reads them.
func rules(t *testing.T) *rulefmt.RuleGroups {
	t.Helper()
	data, err := os.ReadFile(monitoring + "/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var resource struct {
		Spec json.RawMessage `json:"spec"`
	}
	if err := yaml.Unmarshal(data, &resource); err != nil {
		t.Fatal(err)
	}
	spec, err := yaml.JSONToYAML(resource.Spec)
	if err != nil {
		t.Fatal(err)
	}
	groups, errs := rulefmt.Parse(spec, false, model.UTF8Validation, reader, slog.Default())
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return groups
}
