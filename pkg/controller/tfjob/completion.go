// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	"github.com/tutti-project/tutti/pkg/apis/tutti"
)

// phaseOf is what a pod of a role counts as. That is its phase, unless the job says that the end of the container that trains is the
// end of the replica: then sidecars that run on do not keep it from ending. What the kubelet is about to restart has not ended.
//
// Under Always the kubelet restarts whatever ends. A pod that has succeeded all the same was told to go, and is replaced as one that was
// evicted.
func phaseOf(job *kubeflowv1.TFJob, r *role, pod *corev1.Pod) corev1.PodPhase {
	phase := pod.Status.Phase
	if phase == corev1.PodSucceeded && r.spec.RestartPolicy == kubeflowv1.RestartPolicyAlways {
		return corev1.PodFailed
	}
	if phase != corev1.PodRunning || !endsWithTrainer(job) {
		return phase
	}
	code, known := exitCode(pod)
	policy := podRestartPolicy(r.spec.RestartPolicy)
	switch {
	case !known || policy == corev1.RestartPolicyAlways:
		return phase
	case code == 0:
		return corev1.PodSucceeded
	case policy == corev1.RestartPolicyNever:
		return corev1.PodFailed
	}
	return phase
}

func endsWithTrainer(job *kubeflowv1.TFJob) bool {
	return job.Annotations[tutti.CompletionAnnotation] == tutti.CompletionMainContainer
}

// phaseOf is what a pod counts as that may have been told to go: a success that came of the controller's word is none.
func (d departure) phaseOf(job *kubeflowv1.TFJob, r *role) corev1.PodPhase {
	phase := phaseOf(job, r, d.pod)
	if phase == corev1.PodSucceeded && d.onCommand(job) {
		return corev1.PodRunning
	}
	return phase
}

// validateAnnotations says which of the annotations that the controller reads it cannot read.
func validateAnnotations(job *kubeflowv1.TFJob) (problems []string) {
	for _, a := range []struct {
		key    string
		values []string
	}{
		{tutti.ServicesAnnotation, []string{tutti.ServicesPerReplica, tutti.ServicesPerJob}},
		{tutti.CompletionAnnotation, []string{tutti.CompletionPod, tutti.CompletionMainContainer}},
	} {
		value, given := job.Annotations[a.key]
		if given && value != a.values[0] && value != a.values[1] {
			problems = append(problems, fmt.Sprintf("annotation %s is %q; it can be %s or %s", a.key, value, a.values[0], a.values[1]))
		}
	}
	return problems
}
