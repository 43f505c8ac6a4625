// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// canonical returns the job as the rest of the package reads it: the map shape, canonical keys, every default filled in. The
// stored job is left as its user wrote it. Problems are what makes that impossible; a job with problems is not run.
//
// It is total: whatever the API server let through comes out as a job or as problems.
func canonical(stored *kubeflowv1.TFJob) (job *kubeflowv1.TFJob, problems []string) {
	job = stored.DeepCopy()
	problems = fromLegacy(job)
	problems = append(problems, canonicalKeys(job)...)
	setDefaults(job)
	return job, append(problems, validate(job)...)
}

// canonicalKeys renames worker and WORKER to Worker.
func canonicalKeys(job *kubeflowv1.TFJob) (problems []string) {
	specs := make(map[kubeflowv1.ReplicaType]*kubeflowv1.ReplicaSpec, len(job.Spec.TFReplicaSpecs))
	for _, written := range slices.Sorted(maps.Keys(job.Spec.TFReplicaSpecs)) {
		spec := job.Spec.TFReplicaSpecs[written]
		t, known := canonicalType(written)
		switch {
		case !known:
			problems = append(problems, fmt.Sprintf("replica type %q is not one of %v", written, replicaTypes))
		case specs[t] != nil:
			problems = append(problems, fmt.Sprintf("replica type %s is given twice", t))
		case spec == nil:
			problems = append(problems, fmt.Sprintf("replica type %s is null", t))
		default:
			specs[t] = spec
		}
	}
	job.Spec.TFReplicaSpecs = specs
	return problems
}

func setDefaults(job *kubeflowv1.TFJob) {
	policy := &job.Spec.RunPolicy
	switch {
	case policy.CleanPodPolicy == nil:
		policy.CleanPodPolicy = ptr.To(kubeflowv1.CleanPodPolicyNone)
	case *policy.CleanPodPolicy == "":
		policy.CleanPodPolicy = ptr.To(kubeflowv1.CleanPodPolicyAll)
	}
	if job.Spec.SuccessPolicy == nil {
		job.Spec.SuccessPolicy = ptr.To(kubeflowv1.SuccessPolicyDefault)
	}
	for _, spec := range job.Spec.TFReplicaSpecs {
		if spec.Replicas == nil {
			spec.Replicas = ptr.To[int32](1)
		}
		if spec.RestartPolicy == "" {
			spec.RestartPolicy = kubeflowv1.RestartPolicyNever
		}
		setDefaultPort(&spec.Template.Spec, kubeflowv1.TFJobDefaultPort)
	}
}

func setDefaultPort(pod *corev1.PodSpec, port int32) {
	c := trainer(pod)
	if c == nil {
		return
	}
	named := func(p corev1.ContainerPort) bool { return p.Name == kubeflowv1.TFJobDefaultPortName }
	if !slices.ContainsFunc(c.Ports, named) {
		c.Ports = append(c.Ports, corev1.ContainerPort{Name: kubeflowv1.TFJobDefaultPortName, ContainerPort: port})
	}
}
