// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	tuttiapi "github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/test/controlplane"
)

const image = "example.com/train:1"

// role is one replica type of a job.
type role struct {
	kind     kubeflowv1.ReplicaType
	replicas int32
	gpus     int64
}

func workers(replicas int32, gpus int64) role {
	return role{kubeflowv1.TFJobReplicaTypeWorker, replicas, gpus}
}

func ps(replicas int32) role {
	return role{kubeflowv1.TFJobReplicaTypePS, replicas, 0}
}

// job is a TFJob with these roles; annotate it with what it asks.
func job(name string, roles ...role) *kubeflowv1.TFJob {
	j := &kubeflowv1.TFJob{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       kubeflowv1.TFJobSpec{TFReplicaSpecs: map[kubeflowv1.ReplicaType]*kubeflowv1.ReplicaSpec{}},
	}
	for _, r := range roles {
		j.Spec.TFReplicaSpecs[r.kind] = &kubeflowv1.ReplicaSpec{
			Replicas:      new(r.replicas),
			RestartPolicy: kubeflowv1.RestartPolicyNever,
			Template:      corev1.PodTemplateSpec{Spec: podSpec("", r.gpus)},
		}
	}
	return j
}

func annotated(j *kubeflowv1.TFJob, key, value string) *kubeflowv1.TFJob {
	metav1.SetMetaDataAnnotation(&j.ObjectMeta, key, value)
	return j
}

// podSpec is one container with n GPUs for a scheduler by name.
func podSpec(scheduler string, gpus int64) corev1.PodSpec {
	requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	limits := corev1.ResourceList{}
	if gpus > 0 {
		limits[controlplane.GPU] = *resource.NewQuantity(gpus, resource.DecimalSI)
	}
	return corev1.PodSpec{
		SchedulerName: scheduler,
		Containers: []corev1.Container{{
			Name: "tensorflow", Image: image,
			Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits},
		}},
	}
}

// member is a pod of a gang made by hand.
func member(name, gang string, gpus int64) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.PodGroupLabel: gang}},
		Spec:       podSpec(tuttiapi.SchedulerName, gpus),
	}
}

func (s *scene) createJob(ctx context.Context, j *kubeflowv1.TFJob) error {
	_, err := s.tutti.KubeflowV1().TFJobs(s.namespace).Create(ctx, j, metav1.CreateOptions{})
	return err
}

func (s *scene) deleteJob(ctx context.Context, name string) error {
	return s.tutti.KubeflowV1().TFJobs(s.namespace).Delete(ctx, name,
		metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)})
}

func (s *scene) createPod(ctx context.Context, pod *corev1.Pod) error {
	_, err := s.plane.Client.CoreV1().Pods(s.namespace).Create(ctx, pod, metav1.CreateOptions{})
	return err
}

func (s *scene) createPodGroup(ctx context.Context, name string, minMember int32) error {
	group := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.PodGroupSpec{MinMember: minMember}}
	_, err := s.podGroups.SchedulingV1alpha1().PodGroups(s.namespace).Create(ctx, group, metav1.CreateOptions{})
	return err
}
