// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

func TestRestartDecision(t *testing.T) {
	const unknown = -1
	for name, tc := range map[string]struct {
		policy kubeflowv1.RestartPolicy
		code   int32
		want   bool
	}{
		"never is never":                             {kubeflowv1.RestartPolicyNever, 137, false},
		"evicted under OnFailure":                    {kubeflowv1.RestartPolicyOnFailure, unknown, true},
		"any code under OnFailure":                   {kubeflowv1.RestartPolicyOnFailure, 1, true},
		"evicted under Always":                       {kubeflowv1.RestartPolicyAlways, unknown, true},
		"evicted under ExitCode":                     {kubeflowv1.RestartPolicyExitCode, unknown, true},
		"128 is the first that is retried":           {kubeflowv1.RestartPolicyExitCode, 128, true},
		"killed":                                     {kubeflowv1.RestartPolicyExitCode, 137, true},
		"segmentation fault":                         {kubeflowv1.RestartPolicyExitCode, 139, true},
		"127 is the last that is final":              {kubeflowv1.RestartPolicyExitCode, 127, false},
		"the program's own error":                    {kubeflowv1.RestartPolicyExitCode, 1, false},
		"another container failed, this one did not": {kubeflowv1.RestartPolicyExitCode, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			pod := makePod("worker", 0, failed)
			if tc.code != unknown {
				exited(tc.code)(pod)
			}
			if got := isRestartable(tc.policy, pod); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestExitCodeIsThatOfTheTrainingContainer(t *testing.T) {
	pod := makePod("worker", 0, failed)
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{
		{Name: "sidecar", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 143}}},
		{Name: "tensorflow", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}},
	}
	if code, known := exitCode(pod); code != 1 || !known {
		t.Errorf("got %d, %v", code, known)
	}
}

func TestPodRestartPolicy(t *testing.T) {
	for policy, want := range map[kubeflowv1.RestartPolicy]corev1.RestartPolicy{
		kubeflowv1.RestartPolicyExitCode:  corev1.RestartPolicyNever,
		kubeflowv1.RestartPolicyNever:     corev1.RestartPolicyNever,
		kubeflowv1.RestartPolicyAlways:    corev1.RestartPolicyAlways,
		kubeflowv1.RestartPolicyOnFailure: corev1.RestartPolicyOnFailure,
	} {
		if got := podRestartPolicy(policy); got != want {
			t.Errorf("%s: got %s, want %s", policy, got, want)
		}
	}
}
