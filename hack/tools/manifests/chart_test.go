// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"sigs.k8s.io/yaml"
)

var rewrite = flag.Bool("rewrite", false, "write what the chart renders to testdata/chart")

func TestChartHasTheObjectsOfTheKustomization(t *testing.T) {
	cases := map[string]struct {
		values     map[string]any
		components []string
	}{
		"the defaults":      {},
		"the agent":         {values: map[string]any{"agent": map[string]any{"enabled": true}}, components: []string{"agent"}},
		"native pod groups": {values: map[string]any{"nativePodGroups": true}, components: []string{"native-pod-groups"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			want, got := alike(kustomize(t, tc.components...)), alike(helm(t, tc.values))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-kustomize +helm:\n%s", diff)
			}
		})
	}
}

// alike takes away what may differ: Helm makes the release's namespace itself, it marks what is its own and what stays, and
// each has its way to restart pods when their ConfigMap changes.
func alike(objects map[string]object) map[string]object {
	same := map[string]object{}
	for _, o := range objects {
		if o.kind() == "Namespace" && o.metadata()["name"] == namespace {
			continue
		}
		o = withoutHash(o)
		metadata := o.metadata()
		drop(metadata, "labels", "app.kubernetes.io/managed-by", "helm.sh/chart")
		drop(metadata, "annotations", "helm.sh/resource-policy")
		if spec, ok := o["spec"].(map[string]any); ok && o.kind() == "Deployment" {
			template := spec["template"].(map[string]any)["metadata"].(map[string]any)
			drop(template, "annotations", "checksum/config")
		}
		same[o.key()] = o
	}
	return same
}

// drop entries of a map of a map, and that map when it is empty.
func drop(parent map[string]any, name string, keys ...string) {
	entries, _ := parent[name].(map[string]any)
	for _, key := range keys {
		delete(entries, key)
	}
	if len(entries) == 0 {
		delete(parent, name)
	}
}

var hashed = regexp.MustCompile(`(tutti-scheduler-config)-[a-z0-9]{10}\b`)

func withoutHash(o object) object {
	text, err := yaml.Marshal(o)
	if err != nil {
		panic(err) // it was read from YAML
	}
	var plain object
	if err := yaml.Unmarshal(hashed.ReplaceAll(text, []byte("$1")), &plain); err != nil {
		panic(err)
	}
	return plain
}

func TestHelmLintHasNothingToSay(t *testing.T) {
	for name, values := range variants(t) {
		for _, message := range lint.RunAll(chart, values, namespace).Messages {
			// Charts for a catalogue have icons.
			if message.Severity > support.InfoSev || !strings.Contains(message.Error(), "icon is recommended") {
				t.Errorf("%s: %v", name, message)
			}
		}
	}
}

// TestChartRendersAsBefore: a change of what the chart makes shows as a change of text. CRDs are left out, they are
// compared above.
func TestChartRendersAsBefore(t *testing.T) {
	for name, values := range variants(t) {
		rendered, err := templates(values, map[bool]string{true: namespace, false: "elsewhere"}[len(values) == 0])
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got strings.Builder
		for _, file := range slices.Sorted(maps.Keys(rendered)) {
			if text := strings.TrimSpace(rendered[file]); text != "" && !strings.HasSuffix(file, "/crds.yaml") {
				got.WriteString("# Source: " + file + "\n" + text + "\n\n")
			}
		}
		golden := filepath.Join("testdata", "chart", name+".golden")
		if *rewrite {
			if err := os.WriteFile(golden, []byte(got.String()), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got.String()); diff != "" {
			t.Errorf("%s: go test ./... -rewrite writes the new text (-want +got):\n%s", name, diff)
		}
	}
}

// variants are the files of values in testdata/chart, and none.
func variants(t *testing.T) map[string]map[string]any {
	t.Helper()
	files, err := filepath.Glob("testdata/chart/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no values in testdata/chart", err)
	}
	found := map[string]map[string]any{"defaults": {}}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		values := map[string]any{}
		if err := yaml.UnmarshalStrict(data, &values); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		found[strings.TrimSuffix(filepath.Base(file), ".yaml")] = values
	}
	return found
}

func TestChartRefusesValuesThatItDoesNotKnow(t *testing.T) {
	cases := map[string]struct{ values, want string }{
		"a misspelt name":         {"scheduler: {replica: 3}", "replica"},
		"replicas as text":        {"scheduler: {replicas: two}", "replicas"},
		"fewer than none":         {"controller: {replicas: -1}", "replicas"},
		"an unknown pull policy":  {"image: {pullPolicy: Sometimes}", "pullPolicy"},
		"a slash after the names": {"image: {registry: registry.example/}", "registry"},
		"an argument, not a flag": {"controller: {extraArgs: [qps]}", "extraArgs"},
		"a variable as text":      {"controller: {extraEnv: [CUSTOM_CLUSTER_DOMAIN=x]}", "extraEnv"},
		"a variable's number":     {"controller: {extraEnv: [{name: N, value: 1}]}", "extraEnv"},
	}
	for name, tc := range cases {
		values := map[string]any{}
		if err := yaml.Unmarshal([]byte(tc.values), &values); err != nil {
			t.Fatal(err)
		}
		if _, err := templates(values, namespace); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got error %v, want one about %q", name, err, tc.want)
		}
	}
}

// TestCRDsStay: with the CRDs go all jobs, so that helm uninstall must leave them.
func TestCRDsStay(t *testing.T) {
	crds := func(values map[string]any) (found, kept int) {
		for _, o := range helm(t, values) {
			if o.kind() != "CustomResourceDefinition" {
				continue
			}
			found++
			annotations, _ := o.metadata()["annotations"].(map[string]any)
			if annotations["helm.sh/resource-policy"] == "keep" {
				kept++
			}
		}
		return found, kept
	}
	cases := []struct {
		crds        map[string]any
		found, kept int
	}{
		{map[string]any{}, 3, 3},
		{map[string]any{"keep": false}, 3, 0},
		{map[string]any{"install": false}, 0, 0},
	}
	for _, tc := range cases {
		if found, kept := crds(map[string]any{"crds": tc.crds}); found != tc.found || kept != tc.kept {
			t.Errorf("with %v there are %d CRDs, %d of them stay; want %d and %d", tc.crds, found, kept, tc.found, tc.kept)
		}
	}
}
