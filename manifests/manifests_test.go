// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package manifests_test

import (
	"encoding/json"
	"path"
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
