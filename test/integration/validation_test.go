// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tutti-project/tutti/test/controlplane"
)

// validationCases are laid out as pkg/apis/kubeflow/v1/testdata/validation/README.md
// says.
var validationCases = []string{
	"../../pkg/apis/kubeflow/v1/testdata/validation",
	"../../pkg/apis/topology/v1alpha1/testdata/validation",
}

// TestCRDsAcceptAndRefuse runs where no program of ours does: only the API
// server judges.
func TestCRDsAcceptAndRefuse(t *testing.T) {
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Dir: t.TempDir()})
	must(t, err)
	t.Cleanup(plane.Stop)
	for _, folder := range validationCases {
		for _, verdict := range []string{"valid", "invalid"} {
			files, err := filepath.Glob(filepath.Join(folder, verdict, "*.yaml"))
			must(t, err)
			if len(files) == 0 {
				t.Errorf("no cases in %s/%s", folder, verdict)
			}
			for _, file := range files {
				t.Run(verdict+"/"+strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
					judge(t, plane, file, verdict == "valid")
				})
			}
		}
	}
}

func judge(t *testing.T, plane *controlplane.ControlPlane, file string, valid bool) {
	versions, err := controlplane.ObjectsFromFile(file)
	must(t, err)
	// Cases may share a name: what one stores must be gone for the next.
	t.Cleanup(func() {
		if err := plane.Delete(context.WithoutCancel(t.Context()), "default", versions[0]); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	last := len(versions) - 1
	for _, version := range versions[:last] {
		must(t, plane.Store(t.Context(), "default", version))
	}
	err = plane.Store(t.Context(), "default", versions[last])
	if valid {
		if err != nil {
			t.Errorf("refused: %v", err)
		}
		return
	}
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range wants(t, file) {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("refused with %q, want %q in it", err, want)
		}
	}
}

// wants are the lines "# want: <text>" of the file's head.
func wants(t *testing.T, file string) []string {
	t.Helper()
	data, err := os.ReadFile(file)
	must(t, err)
	var texts []string
	for line := range strings.Lines(string(data)) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "# want: "); ok {
			texts = append(texts, text)
		}
	}
	if len(texts) == 0 {
		t.Fatal("the case does not say why it is refused")
	}
	return texts
}
