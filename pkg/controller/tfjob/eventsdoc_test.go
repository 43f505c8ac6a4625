// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"os"
	"regexp"
	"strings"
	"testing"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// Every event of the catalogue is in docs/tfjob.md.
func TestTheDocumentNamesEveryEvent(t *testing.T) {
	source, err := os.ReadFile("events.go")
	if err != nil {
		t.Fatal(err)
	}
	document, err := os.ReadFile("../../../docs/tfjob.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(document), "## Events")
	text, _, _ = strings.Cut(text, "\n## ")
	constants := map[string]string{
		"TFJobRestartingReason": kubeflowv1.TFJobRestartingReason, "TFJobSucceededReason": kubeflowv1.TFJobSucceededReason,
		"TFJobFailedReason": kubeflowv1.TFJobFailedReason, "TFJobFailedValidationReason": kubeflowv1.TFJobFailedValidationReason,
		"TFJobSuspendedReason": kubeflowv1.TFJobSuspendedReason, "TFJobResumedReason": kubeflowv1.TFJobResumedReason,
	}
	reasons := regexp.MustCompile(`event\{(?:corev1\.\w+|kind), (?:"(\w+)"|kubeflowv1\.(\w+))`).FindAllStringSubmatch(string(source), -1)
	if len(reasons) < 17 {
		t.Fatalf("the catalogue has %d events", len(reasons))
	}
	for _, m := range reasons {
		reason := m[1]
		if m[2] != "" {
			reason = constants[m[2]]
		}
		if reason == "" || !strings.Contains(text, "`"+reason) {
			t.Errorf("%s%s is not in the document", m[1], m[2])
		}
	}
}
