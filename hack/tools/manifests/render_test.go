// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const (
	root      = "../../.."
	chart     = root + "/charts/tutti"
	namespace = "tutti-system"
)

// object is one as JSON has it.
type object map[string]any

func (o object) metadata() map[string]any {
	metadata, _ := o["metadata"].(map[string]any)
	return metadata
}

func (o object) kind() string {
	kind, _ := o["kind"].(string)
	return kind
}

func (o object) key() string {
	return fmt.Sprintf("%v %v %v/%v", o["apiVersion"], o["kind"], o.metadata()["namespace"], o.metadata()["name"])
}

// templates renders the chart's, as helm template does.
func templates(values map[string]any, namespace string) (map[string]string, error) {
	loaded, err := loader.Load(chart)
	if err != nil {
		return nil, err
	}
	given, err := util.ToRenderValues(loaded, values, common.ReleaseOptions{Name: "tutti", Namespace: namespace, IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	return engine.Render(loaded, given)
}

// helm renders the chart into objects, by key.
func helm(t *testing.T, values map[string]any) map[string]object {
	t.Helper()
	rendered, err := templates(values, namespace)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]object{}
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		if path.Ext(name) == ".yaml" {
			add(t, found, rendered[name])
		}
	}
	return found
}

// kustomize renders a kustomization of folders of manifests/ into objects, by key.
func kustomize(t *testing.T, components ...string) map[string]object {
	t.Helper()
	variant := t.TempDir()
	manifests, err := filepath.Abs(root + "/manifests")
	if err != nil {
		t.Fatal(err)
	}
	if manifests, err = filepath.Rel(variant, manifests); err != nil {
		t.Fatal(err)
	}
	kustomization := map[string][]string{"resources": {manifests + "/base"}}
	for _, component := range components {
		kustomization["components"] = append(kustomization["components"], manifests+"/"+component)
	}
	lines, err := yaml.Marshal(kustomization)
	if err != nil {
		t.Fatal(err)
	}
	files := filesys.MakeFsOnDisk()
	if err := files.WriteFile(filepath.Join(variant, "kustomization.yaml"), lines); err != nil {
		t.Fatal(err)
	}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, variant)
	if err != nil {
		t.Fatal(err)
	}
	text, err := resources.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]object{}
	add(t, found, string(text))
	return found
}

// add the objects of some documents.
func add(t *testing.T, found map[string]object, documents string) {
	t.Helper()
	for document := range strings.SplitSeq("\n"+documents, "\n---") {
		o := object{}
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if len(o) == 0 {
			continue
		}
		if _, twice := found[o.key()]; twice {
			t.Errorf("%s is there twice", o.key())
		}
		found[o.key()] = o
	}
}
