// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedulingv1alpha1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	"github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/pkg/clusterspec"
)

// newPod makes the pod of a slot from its role's template.
func newPod(v *view, n newcomer, options Options) (*corev1.Pod, error) {
	s := n.slot
	template := s.role.spec.Template.DeepCopy()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:            s.name(v.job),
			Namespace:       v.job.Namespace,
			Labels:          merged(template.Labels, slotLabels(v.job, s)),
			Annotations:     template.Annotations,
			Finalizers:      template.Finalizers,
			OwnerReferences: ownerReferences(v.job),
		},
		Spec: template.Spec,
	}
	if s.role.decides && (s.role.kind != kubeflowv1.TFJobReplicaTypeWorker || s.index == 0) {
		pod.Labels[kubeflowv1.JobRoleLabel] = kubeflowv1.JobRoleMaster
	}
	delete(pod.Annotations, tutti.AttemptAnnotation)
	if n.attempt > 0 {
		pod.Annotations = merged(pod.Annotations, map[string]string{tutti.AttemptAnnotation: strconv.Itoa(int(n.attempt))})
	}
	if options.PodGroups != nil {
		pod.Labels[schedulingv1alpha1.PodGroupLabel] = v.job.Name
		options.PodGroups.join(pod, v.job.Name)
	}
	if pod.Spec.SchedulerName == "" {
		pod.Spec.SchedulerName = options.SchedulerName
	}
	pod.Spec.PriorityClassName = priorityClass(v.job, s.role)
	if v.perJob {
		pod.Spec.Hostname, pod.Spec.Subdomain = pod.Name, v.job.Name
	}
	pod.Spec.RestartPolicy = podRestartPolicy(s.role.spec.RestartPolicy)
	return pod, addEnv(pod, v, s, options)
}

// addEnv puts variables around those of the template. Of variables of one name the last one counts, and the controller knows the
// peers better than a template; what a template may refer to stands first.
func addEnv(pod *corev1.Pod, v *view, s slot, options Options) error {
	vars, err := clusterspec.Env(kubeflowv1.TFJobFrameworkName, clusterJob(v, options.Domain), s.task())
	if err != nil {
		return fmt.Errorf("making the environment of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	c := trainer(&pod.Spec)
	var first, last []corev1.EnvVar
	for _, variable := range vars {
		env := corev1.EnvVar{Name: variable.Name, Value: variable.Value}
		if variable.First {
			first = append(first, env)
		} else {
			last = append(last, env)
		}
	}
	c.Env = slices.Concat(first, c.Env, last)
	return nil
}

// jobLabels select everything of a job.
func jobLabels(job *kubeflowv1.TFJob) map[string]string {
	return map[string]string{
		kubeflowv1.OperatorNameLabel: kubeflowv1.TFJobControllerName,
		kubeflowv1.JobNameLabel:      job.Name,
	}
}

// slotLabels select the pod of a slot.
func slotLabels(job *kubeflowv1.TFJob, s slot) map[string]string {
	return merged(jobLabels(job), map[string]string{
		kubeflowv1.ReplicaTypeLabel:  s.role.name,
		kubeflowv1.ReplicaIndexLabel: strconv.Itoa(s.index),
	})
}

func ownerReferences(job *kubeflowv1.TFJob) []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(job, jobKind)}
}

var jobKind = kubeflowv1.SchemeGroupVersion.WithKind(kubeflowv1.TFJobKind)

// merged is a new map; where both name a key, over's value counts.
func merged(base, over map[string]string) map[string]string {
	all := make(map[string]string, len(base)+len(over))
	maps.Copy(all, base)
	maps.Copy(all, over)
	return all
}
