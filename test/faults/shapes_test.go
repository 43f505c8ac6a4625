// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

const nodes = 8

// shape is a kind of job whose end does not depend on which of its pods is
// faster.
type shape struct {
	name string
	make func(*kubeflowv1.TFJob)
}

var shapes = []shape{
	{"local", func(j *kubeflowv1.TFJob) {
		add(j, kubeflowv1.TFJobReplicaTypeWorker, 1, ends("0"))
	}},
	{"workers", func(j *kubeflowv1.TFJob) {
		add(j, kubeflowv1.TFJobReplicaTypeWorker, 3, ends("0"))
		j.Spec.SuccessPolicy = new(kubeflowv1.SuccessPolicyAllWorkers)
		j.Spec.RunPolicy.CleanPodPolicy = new(kubeflowv1.CleanPodPolicyRunning)
	}},
	{"chief", func(j *kubeflowv1.TFJob) {
		add(j, kubeflowv1.TFJobReplicaTypeChief, 1, ends("0"))
		add(j, kubeflowv1.TFJobReplicaTypePS, 1, nil)
		add(j, kubeflowv1.TFJobReplicaTypeWorker, 1, nil)
		j.Spec.RunPolicy.CleanPodPolicy = new(kubeflowv1.CleanPodPolicyAll)
	}},
	{"broken", func(j *kubeflowv1.TFJob) {
		add(j, kubeflowv1.TFJobReplicaTypeWorker, 1, ends("3"))
	}},
	{"killed", func(j *kubeflowv1.TFJob) {
		add(j, kubeflowv1.TFJobReplicaTypeWorker, 1, ends("137"))
		j.Spec.TFReplicaSpecs[kubeflowv1.TFJobReplicaTypeWorker].RestartPolicy = kubeflowv1.RestartPolicyExitCode
		j.Spec.RunPolicy.BackoffLimit = new(int32(1))
	}},
	{"suspended", func(j *kubeflowv1.TFJob) {
		add(j, kubeflowv1.TFJobReplicaTypeWorker, 1, ends("0"))
		j.Spec.RunPolicy.Suspend = new(true) // resumed when it has been seen
	}},
	{"vanishing", func(j *kubeflowv1.TFJob) {
		add(j, kubeflowv1.TFJobReplicaTypeWorker, 1, ends("0"))
		j.Spec.RunPolicy.TTLSecondsAfterFinished = new(int32(1))
	}},
}

// newJob is the i-th job: the shapes take turns.
func newJob(i int) *kubeflowv1.TFJob {
	s := shapes[i%len(shapes)]
	job := &kubeflowv1.TFJob{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", s.name, i)}}
	job.Spec.TFReplicaSpecs = map[kubeflowv1.ReplicaType]*kubeflowv1.ReplicaSpec{}
	s.make(job)
	for _, spec := range job.Spec.TFReplicaSpecs {
		// Placed by hand: the scheduler is not what is tested.
		spec.Template.Spec.NodeName = fmt.Sprintf("n%03d", i%nodes+1)
	}
	return job
}

// shapeOf is the shape of a job, or of a pod or service of a job, by its name.
func shapeOf(name string) string {
	shape, _, _ := strings.Cut(name, "-")
	return shape
}

func add(j *kubeflowv1.TFJob, t kubeflowv1.ReplicaType, replicas int32, annotations map[string]string) {
	j.Spec.TFReplicaSpecs[t] = &kubeflowv1.ReplicaSpec{
		Replicas: &replicas,
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: annotations},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "tensorflow", Image: "example.com/train:1"}}},
		},
	}
}

func ends(code string) map[string]string {
	return map[string]string{"demo.tutti.dev/run-for": "300ms", "demo.tutti.dev/exit-code": code}
}
