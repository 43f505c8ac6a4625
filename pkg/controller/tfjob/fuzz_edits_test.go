// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// FuzzEditedJob edits a job that runs into any other that an API server could store, and back. The controller must not panic and must come
// to rest both times, and no edit of its specification ends the job as one that cannot be run.
func FuzzEditedJob(f *testing.F) {
	documents := seedDocuments(f)
	for seed := range uint64(seedsPerDocument) {
		for _, document := range documents {
			f.Add(seed, document)
		}
	}
	f.Fuzz(func(t *testing.T, seed uint64, document []byte) {
		edited := storedJob(seed, document)
		if edited == nil {
			return
		}
		before := makeJob(replicas(ps, 1, kubeflowv1.RestartPolicyOnFailure), replicas(worker, 2, kubeflowv1.RestartPolicyExitCode))
		if seed%3 == 0 {
			replicas(chief, 1)(before)
		}
		w := newWorldOf(t, anyKind(seed))
		w.put(resJobs, before)
		w.look()
		w.setPhases("", corev1.PodRunning)
		w.look()
		w.edit(func(job *kubeflowv1.TFJob) { job.Spec, job.Annotations = edited.Spec, edited.Annotations })
		for _, step := range []string{"edited", "edited back"} {
			if !w.rests() {
				t.Fatalf("%s: no rest; conditions %v, last writes %v, job:\n%s", step, describe(w.job().Status), last10(w.writes), text(t, edited))
			}
			if w.objects[resJobs]["j"] == nil || isManagedElsewhere(w.job()) {
				return
			}
			if failure := findCondition(&w.job().Status, kubeflowv1.JobFailed); failure != nil && failure.Reason == kubeflowv1.TFJobFailedValidationReason {
				t.Fatalf("%s: %s\n%s", step, failure.Message, text(t, edited))
			}
			w.edit(func(job *kubeflowv1.TFJob) { job.Spec, job.Annotations = before.Spec, before.Annotations })
		}
		if !isFinished(&w.job().Status) {
			t.Errorf("edited back it does not end: %v, pods %v, job:\n%s", describe(w.job().Status), w.podNames(), text(t, edited))
		}
	})
}
