// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package v1_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// TestAcceptedManifestsDecode: what the CRD accepts (testdata/validation/README.md) the Go types
// must read, strictly, or an object could be stored that no informer can list.
func TestAcceptedManifestsDecode(t *testing.T) {
	for _, file := range manifests(t, "testdata/validation/valid/*.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			for _, document := range documents(t, file) {
				var job kubeflowv1.TFJob
				if err := yaml.UnmarshalStrict(document, &job); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestRefusedManifestsSayWhy: a case without an expectation would pass for any reason at all.
func TestRefusedManifestsSayWhy(t *testing.T) {
	for _, file := range manifests(t, "testdata/validation/invalid/*.yaml") {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(data), "\n# want: ") {
			t.Errorf("%s has no line that begins with \"# want: \"", file)
		}
	}
}

func documents(t *testing.T, file string) [][]byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Split(data, []byte("\n---\n"))
}
