// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// legacyDefaultImage is what v1alpha1 ran where a job named no image at all.
const legacyDefaultImage = "tensorflow/tensorflow:1.3.0"

// fromLegacy rewrites the list shape of v1alpha1 into the map shape, in place. A job of the map shape is left alone.
func fromLegacy(job *kubeflowv1.TFJob) (problems []string) {
	if len(job.Spec.ReplicaSpecs) == 0 {
		return nil
	}
	if len(job.Spec.TFReplicaSpecs) > 0 {
		return []string{"there are both tfReplicaSpecs and replicaSpecs"}
	}
	legacy := job.Spec.ReplicaSpecs
	borrowed := lenderTemplate(legacy)
	job.Spec.TFReplicaSpecs = make(map[kubeflowv1.ReplicaType]*kubeflowv1.ReplicaSpec, len(legacy))
	for i := range legacy {
		t, known := legacyType(legacy[i].TFReplicaType)
		switch {
		case !known:
			problems = append(problems, fmt.Sprintf("tfReplicaType %q is not one of MASTER, WORKER, PS", legacy[i].TFReplicaType))
			continue
		case job.Spec.TFReplicaSpecs[t] != nil:
			problems = append(problems, fmt.Sprintf("tfReplicaType %s is given twice", legacy[i].TFReplicaType))
			continue
		}
		job.Spec.TFReplicaSpecs[t] = legacyReplica(&job.Spec, &legacy[i], t, borrowed)
	}
	if job.Spec.RunPolicy.CleanPodPolicy == nil && job.Spec.CleanupPodPolicy != "" {
		job.Spec.RunPolicy.CleanPodPolicy = new(job.Spec.CleanupPodPolicy)
	}
	return append(problems, checkLegacyChief(job)...)
}

func legacyReplica(spec *kubeflowv1.TFJobSpec, replica *kubeflowv1.LegacyReplicaSpec, t kubeflowv1.ReplicaType, borrowed *corev1.PodTemplateSpec) *kubeflowv1.ReplicaSpec {
	out := &kubeflowv1.ReplicaSpec{Replicas: replica.Replicas}
	switch {
	case replica.Template != nil:
		replica.Template.DeepCopyInto(&out.Template)
	case borrowed != nil:
		borrowed.DeepCopyInto(&out.Template)
	case t == kubeflowv1.TFJobReplicaTypePS:
		image := spec.TFImage
		if image == "" {
			image = legacyDefaultImage
		}
		out.Template.Spec.Containers = []corev1.Container{{Name: kubeflowv1.TFJobDefaultContainerName, Image: image}}
	}
	pod := &out.Template.Spec
	// The replica's policy speaks from here on; a policy in the template as well would look like a contradiction of the user's.
	out.RestartPolicy, pod.RestartPolicy = kubeflowv1.RestartPolicy(pod.RestartPolicy), ""
	if pod.SchedulerName == "" {
		pod.SchedulerName = spec.SchedulerName
	}
	if c := trainer(pod); c != nil && c.Image == "" {
		c.Image = spec.TFImage
	}
	if replica.TFPort != nil {
		setDefaultPort(pod, *replica.TFPort)
	}
	return out
}

// lenderTemplate is what a replica without a template uses: the master's, or else the workers'.
func lenderTemplate(replicas []kubeflowv1.LegacyReplicaSpec) *corev1.PodTemplateSpec {
	for _, lender := range []kubeflowv1.ReplicaType{kubeflowv1.TFJobReplicaTypeMaster, kubeflowv1.TFJobReplicaTypeWorker} {
		for i := range replicas {
			if t, _ := legacyType(replicas[i].TFReplicaType); t == lender && replicas[i].Template != nil {
				return replicas[i].Template
			}
		}
	}
	return nil
}

func legacyType(written kubeflowv1.ReplicaType) (kubeflowv1.ReplicaType, bool) {
	if written == "" {
		return kubeflowv1.TFJobReplicaTypeMaster, true
	}
	return canonicalType(written)
}

// legacyChief is the type that a legacy job names as the one that decides its success, or "" if it names none.
func legacyChief(job *kubeflowv1.TFJob) kubeflowv1.ReplicaType {
	if len(job.Spec.ReplicaSpecs) == 0 || job.Spec.TerminationPolicy == nil || job.Spec.TerminationPolicy.Chief == nil {
		return ""
	}
	t, _ := legacyType(job.Spec.TerminationPolicy.Chief.ReplicaName)
	return t
}

func checkLegacyChief(job *kubeflowv1.TFJob) []string {
	if job.Spec.TerminationPolicy == nil || job.Spec.TerminationPolicy.Chief == nil {
		return nil
	}
	written := *job.Spec.TerminationPolicy.Chief
	chief := legacyChief(job)
	switch {
	case chief != kubeflowv1.TFJobReplicaTypeMaster && chief != kubeflowv1.TFJobReplicaTypeWorker:
		return []string{fmt.Sprintf("terminationPolicy.chief.replicaName %q is not one of MASTER, WORKER", written.ReplicaName)}
	case written.ReplicaIndex != 0:
		return []string{fmt.Sprintf("terminationPolicy.chief.replicaIndex is %d; only 0 can decide", written.ReplicaIndex)}
	case job.Spec.TFReplicaSpecs[chief] == nil:
		return []string{fmt.Sprintf("terminationPolicy names %s, and there are no such replicas", chief)}
	}
	return nil
}
