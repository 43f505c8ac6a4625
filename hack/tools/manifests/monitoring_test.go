// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

const monitoring = root + "/manifests/monitoring"

// TestEveryQueryAndRuleIsOneOfPrometheus: what Prometheus would refuse, or read as something else.
func TestEveryQueryAndRuleIsOneOfPrometheus(t *testing.T) {
	for where, query := range queries(t) {
		if _, err := reader.ParseExpr(query); err != nil {
			t.Errorf("%s: %v in %s", where, err, query)
		}
	}
}

// TestEveryMetricThatIsWatchedIsServed: those of Tutti are in the document that a test compares with what the
// programs serve, the agent's where it registers them, and the engine's in testdata/metrics.
func TestEveryMetricThatIsWatchedIsServed(t *testing.T) {
	known := served(t)
	records := map[string]bool{}
	for _, group := range rules(t).Groups {
		for _, rule := range group.Rules {
			if rule.Record != "" {
				records[rule.Record] = true
			}
		}
	}
	for where, query := range queries(t) {
		for _, name := range metricsOf(t, query) {
			base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
			if !known[name] && !known[base] && !records[name] {
				t.Errorf("%s names %s, which nothing serves", where, name)
			}
		}
	}
}

// served are the names of metrics that the programs have.
func served(t *testing.T) map[string]bool {
	t.Helper()
	known := map[string]bool{}
	for _, document := range []string{"docs/metrics.md", "pkg/agent/metrics.go"} {
		text, err := os.ReadFile(filepath.Join(root, document))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile("[`\"]((?:tutti|training_operator)_[a-z_]+)[`\"]").FindAllStringSubmatch(string(text), -1) {
			known[name[1]] = true
		}
	}
	for _, status := range []string{"created", "deleted", "successful", "failed", "restarted"} {
		known["training_operator_jobs_"+status+"_total"] = true // documented together
	}
	engine, err := os.ReadFile("testdata/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(engine)) {
		if !strings.HasPrefix(line, "#") {
			known[strings.TrimSpace(line)] = true
		}
	}
	return known
}

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

// queries of rules and panels, by where they stand. Grafana's variables have values.
func queries(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, group := range rules(t).Groups {
		for _, rule := range group.Rules {
			found["rules.yaml, "+rule.Alert+rule.Record] = rule.Expr
		}
	}
	data, err := os.ReadFile(monitoring + "/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Type    string
			Targets []struct{ RefID, Expr string }
		}
	}
	if err := json.Unmarshal(data, &dashboard); err != nil {
		t.Fatal(err)
	}
	values := strings.NewReplacer("$__rate_interval", "5m", "$profile", ".*", "$level", ".*")
	for _, panel := range dashboard.Panels {
		if panel.Type != "row" && len(panel.Targets) == 0 {
			t.Errorf("panel %q shows nothing", panel.Title)
		}
		for _, target := range panel.Targets {
			found[fmt.Sprintf("dashboard.json, %s %s", panel.Title, target.RefID)] = values.Replace(target.Expr)
		}
	}
	return found
}

func metricsOf(t *testing.T, query string) []string {
	t.Helper()
	expression, err := reader.ParseExpr(query)
	if err != nil {
		t.Fatalf("%v in %s", err, query)
	}
	var names []string
	parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			names = append(names, selector.Name)
		}
		return nil
	})
	return names
}
