// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

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

// The job that docs/tfjob.md shows is one that can be run, and its arguments name variables that there are.
func TestTheDocumentsJobCanBeRun(t *testing.T) {
	document, err := os.ReadFile("../../../docs/tfjob.md")
	if err != nil {
		t.Fatal(err)
	}
	jobs := 0
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(document), -1) {
		if !strings.Contains(block[1], "kind: TFJob") {
			continue
		}
		jobs++
		job := &kubeflowv1.TFJob{}
		if err := yaml.UnmarshalStrict([]byte(block[1]), job); err != nil {
			t.Fatal(err)
		}
		v := makeView(t, job)
		if len(v.problems) > 0 {
			t.Errorf("problems: %v", v.problems)
		}
		for i := range v.roles {
			pod, err := newPod(v, newcomer{slot: slot{&v.roles[i], 0}}, testOptions)
			if err != nil {
				t.Fatal(err)
			}
			c := trainer(&pod.Spec)
			for _, used := range regexp.MustCompile(`\$\((\w+)\)`).FindAllStringSubmatch(strings.Join(c.Args, " "), -1) {
				if !slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == used[1] }) {
					t.Errorf("there is no %s", used[1])
				}
			}
		}
	}
	if jobs == 0 {
		t.Error("it shows none")
	}
}
