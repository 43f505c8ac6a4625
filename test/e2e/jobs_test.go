// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// scripted is a job whose replicas all run a Python program. They sleep and
// print, and need next to nothing.
func scripted(name, program string, replicas map[kubeflowv1.ReplicaType]int32) *kubeflowv1.TFJob {
	job := &kubeflowv1.TFJob{ObjectMeta: metav1.ObjectMeta{Name: name}}
	job.Spec.RunPolicy.CleanPodPolicy = new(kubeflowv1.CleanPodPolicyRunning)
	job.Spec.TFReplicaSpecs = map[kubeflowv1.ReplicaType]*kubeflowv1.ReplicaSpec{}
	for role, count := range replicas {
		job.Spec.TFReplicaSpecs[role] = &kubeflowv1.ReplicaSpec{
			Replicas: new(count),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				// Python as the first process of a container ignores SIGTERM.
				TerminationGracePeriodSeconds: new(int64(1)),
				Containers: []corev1.Container{{
					Name: "tensorflow", Image: image, Args: []string{"-c", program},
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
						corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi"),
					}},
				}},
			}},
		}
	}
	return job
}

// each changes the template of every role.
func each(job *kubeflowv1.TFJob, change func(*kubeflowv1.ReplicaSpec)) *kubeflowv1.TFJob {
	for _, replicas := range job.Spec.TFReplicaSpecs {
		change(replicas)
	}
	return job
}
