// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package manifests_test

import (
	"encoding/json"
	"path"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/tutti-project/tutti/manifests"
)

// maxAnnotation is what all annotations of an object may take up; client-side apply puts the whole
// object in one.
const maxAnnotation = 256 << 10

func TestCRDsAreSmallEnoughForClientSideApply(t *testing.T) {
	for name, crd := range crds(t) {
		data, err := json.Marshal(crd)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) >= maxAnnotation {
			t.Errorf("%s takes %d bytes as JSON, want fewer than %d", name, len(data), maxAnnotation)
		}
	}
}

func TestTFJobVersionsShareOneSchema(t *testing.T) {
	crd := crds(t)["tfjobs.kubeflow.org"]
	if crd == nil || len(crd.Spec.Versions) != 2 {
		t.Fatalf("want tfjobs.kubeflow.org with two versions, got %v", crd)
	}
	got := map[string]bool{}
	for _, v := range crd.Spec.Versions {
		got[v.Name] = v.Served && v.Subresources != nil && v.Subresources.Status != nil
	}
	if diff := cmp.Diff(map[string]bool{"v1": true, "v1alpha1": true}, got); diff != "" {
		t.Errorf("versions served with a status (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(crd.Spec.Versions[0].Schema, crd.Spec.Versions[1].Schema); diff != "" {
		t.Errorf("schemas differ (-%s +%s):\n%s", crd.Spec.Versions[0].Name, crd.Spec.Versions[1].Name, diff)
	}
	if crd.Spec.Conversion.Strategy != apiextensionsv1.NoneConverter {
		t.Errorf("conversion is %s, want None", crd.Spec.Conversion.Strategy)
	}
}

func TestPodGroupsKeepConditions(t *testing.T) {
	crd := crds(t)["podgroups.scheduling.x-k8s.io"]
	if crd == nil {
		t.Fatal("no CRD of podgroups.scheduling.x-k8s.io")
	}
	status := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"]
	if _, ok := status.Properties["conditions"]; !ok {
		t.Error("status.conditions is missing")
	}
	if crd.Annotations[apiextensionsv1.KubeAPIApprovedAnnotation] == "" {
		t.Errorf("without the annotation %s no API server accepts a CRD of a group in x-k8s.io", apiextensionsv1.KubeAPIApprovedAnnotation)
	}
}

// crds by object name.
// TestBoundsHaveTheFormatOfTheirField: the API server writes a bound in its shortest form and reads it
// as an integer of the field's format. Where it cannot, it refuses every object that has the field.
func TestBoundsHaveTheFormatOfTheirField(t *testing.T) {
	bits := map[string]int{"int32": 32, "int64": 64}
	found := 0
	var walk func(path string, s *apiextensionsv1.JSONSchemaProps)
	walk = func(path string, s *apiextensionsv1.JSONSchemaProps) {
		if s == nil {
			return
		}
		for _, bound := range []*float64{s.Minimum, s.Maximum} {
			if bound == nil || bits[s.Format] == 0 {
				continue
			}
			found++
			if _, err := strconv.ParseInt(strconv.FormatFloat(*bound, 'f', -1, 64), 10, bits[s.Format]); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
		for name, child := range s.Properties {
			walk(path+"."+name, &child)
		}
		if s.Items != nil {
			walk(path+"[]", s.Items.Schema)
		}
		if s.AdditionalProperties != nil {
			walk(path+"{}", s.AdditionalProperties.Schema)
		}
	}
	for name, crd := range crds(t) {
		for _, v := range crd.Spec.Versions {
			walk(name+"/"+v.Name, v.Schema.OpenAPIV3Schema)
		}
	}
	if found == 0 {
		t.Error("there are no bounds")
	}
}

func crds(t *testing.T) map[string]*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	files, err := manifests.CRDs.ReadDir("crds")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, file := range files {
		if file.Name() == "kustomization.yaml" {
			continue
		}
		data, err := manifests.CRDs.ReadFile(path.Join("crds", file.Name()))
		if err != nil {
			t.Fatal(err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(data, crd); err != nil {
			t.Fatalf("%s: %v", file.Name(), err)
		}
		found[crd.Name] = crd
	}
	return found
}
