// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// TestUpstreamsSDKRuns: the jobs that training-operator's SDK tests itself with.
// One worker runs to its end; a gang of ten, of which there is one, waits until
// it is made a gang of one.
func TestUpstreamsSDKRuns(t *testing.T) {
	s := newScene(t, shared)
	short := func(name string) *kubeflowv1.TFJob {
		j := job(name, workers(1, 0))
		j.Spec.RunPolicy.CleanPodPolicy = new(kubeflowv1.CleanPodPolicyNone)
		j.Spec.TFReplicaSpecs[kubeflowv1.TFJobReplicaTypeWorker].Template.Annotations = map[string]string{"demo.tutti.dev/run-for": "100ms"}
		return j
	}
	gang := short("gang")
	gang.Spec.RunPolicy.SchedulingPolicy = &kubeflowv1.SchedulingPolicy{MinAvailable: new(int32(10))}
	s.run([]step{
		{
			name:  "one worker",
			do:    func(ctx context.Context) error { return s.createJob(ctx, short("mnist")) },
			check: s.sdkSees("mnist", []kubeflowv1.JobConditionType{"Created", "Succeeded"}, "Restarting", "Failed", "Running"),
		},
		{
			name:  "a gang of ten",
			do:    func(ctx context.Context) error { return s.createJob(ctx, gang) },
			check: all(s.wantsMembers("gang", 10), s.exists("gang", 1), s.sdkSees("gang", []kubeflowv1.JobConditionType{"Created"}, "Running", "Succeeded")),
		},
		{
			name:  "a job behind it runs meanwhile",
			do:    func(ctx context.Context) error { return s.createJob(ctx, short("behind")) },
			check: s.sdkSees("behind", []kubeflowv1.JobConditionType{"Succeeded"}),
		},
		{name: "and it waits", check: s.sdkSees("gang", []kubeflowv1.JobConditionType{"Created"}, "Running", "Succeeded")},
		{
			name: "it is made a gang of one",
			do: func(ctx context.Context) error {
				return s.editJob(ctx, "gang", func(j *kubeflowv1.TFJob) { j.Spec.RunPolicy.SchedulingPolicy.MinAvailable = new(int32(1)) })
			},
			check: s.sdkSees("gang", []kubeflowv1.JobConditionType{"Created", "Succeeded"}, "Restarting", "Failed", "Running"),
		},
	})
}

// sdkSees is true when these conditions hold, and none of the others.
func (s *scene) sdkSees(name string, want []kubeflowv1.JobConditionType, not ...kubeflowv1.JobConditionType) func(context.Context) error {
	return func(ctx context.Context) error {
		j, err := s.tutti.KubeflowV1().TFJobs(s.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var hold []kubeflowv1.JobConditionType
		for _, c := range j.Status.Conditions {
			if c.Status == "True" {
				hold = append(hold, c.Type)
			}
		}
		missing := slices.ContainsFunc(want, func(t kubeflowv1.JobConditionType) bool { return !slices.Contains(hold, t) })
		tooMany := slices.ContainsFunc(not, func(t kubeflowv1.JobConditionType) bool { return slices.Contains(hold, t) })
		if missing || tooMany {
			return fmt.Errorf("of job %s hold %v, want %v and not %v", name, hold, want, not)
		}
		return nil
	}
}
