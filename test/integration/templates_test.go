// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// B51: what a template says of its pods' metadata survives the API server and
// reaches the pods.
func TestB51TemplateMetadataReachesThePods(t *testing.T) {
	s := newScene(t, shared)
	j := job("train", workers(1, 0))
	template := &j.Spec.TFReplicaSpecs[kubeflowv1.TFJobReplicaTypeWorker].Template
	template.Labels = map[string]string{"team": "vision", "training.kubeflow.org/job-name": "another"}
	template.Annotations = map[string]string{"sidecar.istio.io/inject": "false"}
	s.run([]step{{
		name:  "its pod is placed",
		do:    func(ctx context.Context) error { return s.createJob(ctx, j) },
		check: s.bound("train", 1),
	}})
	stored, err := s.tutti.KubeflowV1().TFJobs(s.namespace).Get(t.Context(), "train", metav1.GetOptions{})
	must(t, err)
	back := stored.Spec.TFReplicaSpecs[kubeflowv1.TFJobReplicaTypeWorker].Template
	if diff := cmp.Diff(template.ObjectMeta, back.ObjectMeta); diff != "" {
		t.Errorf("the stored template (-want +got):\n%s", diff)
	}
	pod, err := s.plane.Client.CoreV1().Pods(s.namespace).Get(t.Context(), "train-worker-0", metav1.GetOptions{})
	must(t, err)
	want := maps.Clone(template.Labels)
	want["training.kubeflow.org/job-name"] = "train"
	for key, value := range want {
		if pod.Labels[key] != value {
			t.Errorf("label %s is %q, want %q", key, pod.Labels[key], value)
		}
	}
	if pod.Annotations["sidecar.istio.io/inject"] != "false" {
		t.Errorf("annotations %v", pod.Annotations)
	}
}

// B28: a pod that the API server will never take is told in the job's status.
func TestB28AnImpossiblePodEndsItsJob(t *testing.T) {
	s := newScene(t, shared)
	j := job("train", ps(1), workers(2, 0))
	worker := &j.Spec.TFReplicaSpecs[kubeflowv1.TFJobReplicaTypeWorker].Template.Spec
	worker.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}} // there is no volume
	s.run([]step{{
		name:  "the job has failed and says why",
		do:    func(ctx context.Context) error { return s.createJob(ctx, j) },
		check: s.failed("train", kubeflowv1.TFJobFailedValidationReason, `volumeMounts[0].name: Not found: "data"`),
	}, {
		name:  "nothing is left that would wait for it",
		check: s.exists("train", 0),
	}})
}
