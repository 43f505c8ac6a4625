// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type panel struct {
	Title, Type string
	Targets     []struct{ RefID, Expr string }
	Panels      []panel // of a row that is closed
}

type dashboard struct {
	Panels     []panel
	Templating struct {
		List []struct {
			Name, Type string
			Query      any
			AllValue   string
		}
	}
}

// dashboards are all of manifests/monitoring, by file.
func dashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(manifests, "*.json"))
	must(t, err)
	found := map[string]dashboard{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		must(t, err)
		var d dashboard
		must(t, json.Unmarshal(data, &d))
		found[filepath.Base(file)] = d
	}
	if len(found) == 0 {
		t.Fatal("there is no dashboard")
	}
	return found
}

// queries of the dashboards, by panel and letter, with all chosen for variables.
func queries(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for file, d := range dashboards(t) {
		values := []string{"$__rate_interval", "5s"} // four scrapes, as Grafana has it
		for _, v := range d.Templating.List {
			if v.AllValue != "" {
				values = append(values, "$"+v.Name, v.AllValue)
			}
		}
		filled := strings.NewReplacer(values...)
		var collect func([]panel)
		collect = func(panels []panel) {
			for _, p := range panels {
				collect(p.Panels)
				if p.Type != "row" && len(p.Targets) == 0 {
					t.Errorf("%s: the panel %q shows nothing", file, p.Title)
				}
				for _, target := range p.Targets {
					query := filled.Replace(target.Expr)
					if strings.Contains(query, "$") {
						t.Errorf("%s: the panel %q has a variable that is not known: %s", file, p.Title, query)
					}
					found[p.Title+" "+target.RefID] = query
				}
			}
		}
		collect(d.Panels)
	}
	return found
}
