// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

func TestConditionAlgebra(t *testing.T) {
	no := func(t kubeflowv1.JobConditionType) kubeflowv1.JobCondition {
		return condition(t, corev1.ConditionFalse, "Other", "")
	}
	yes := func(t kubeflowv1.JobConditionType) kubeflowv1.JobCondition {
		return condition(t, corev1.ConditionTrue, "TFJob"+string(t), "")
	}
	for name, tc := range map[string]struct {
		add       []kubeflowv1.JobCondition
		want      []string
		wantState kubeflowv1.JobConditionType
	}{
		"the newest stands last":          {[]kubeflowv1.JobCondition{createdCondition(makeJob()), yes("Running")}, []string{"Created", "Running"}, "Running"},
		"the same again changes nothing":  {[]kubeflowv1.JobCondition{yes("Running"), yes("Created"), yes("Running")}, []string{"Running", "Created"}, "Created"},
		"a change moves to the end":       {[]kubeflowv1.JobCondition{yes("Suspended"), yes("Created"), no("Suspended")}, []string{"Created", "Suspended False"}, "Created"},
		"restarting replaces running":     {[]kubeflowv1.JobCondition{yes("Running"), yes("Restarting")}, []string{"Restarting"}, "Restarting"},
		"running replaces restarting":     {[]kubeflowv1.JobCondition{yes("Restarting"), yes("Running")}, []string{"Running"}, "Running"},
		"not running replaces restarting": {[]kubeflowv1.JobCondition{yes("Restarting"), no("Running")}, []string{"Running False"}, ""},
		"success ends running in place":   {[]kubeflowv1.JobCondition{yes("Running"), yes("Created"), yes("Succeeded")}, []string{"Running False", "Created", "Succeeded"}, "Succeeded"},
		"failure absorbs":                 {[]kubeflowv1.JobCondition{yes("Failed"), yes("Succeeded"), yes("Running")}, []string{"Failed"}, "Failed"},
		"success absorbs":                 {[]kubeflowv1.JobCondition{yes("Succeeded"), yes("Failed")}, []string{"Succeeded"}, "Succeeded"},
		"after a resume the state is the last that holds": {
			[]kubeflowv1.JobCondition{yes("Created"), yes("Running"), no("Running"), yes("Suspended"), no("Suspended")},
			[]string{"Created", "Running False", "Suspended False"}, "Created"},
	} {
		t.Run(name, func(t *testing.T) {
			var status kubeflowv1.JobStatus
			for _, c := range tc.add {
				setCondition(&status, c, testTime)
			}
			if diff := cmp.Diff(tc.want, describe(status)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if status.State != tc.wantState {
				t.Errorf("state is %q, want %q", status.State, tc.wantState)
			}
		})
	}
}

func TestConditionTimes(t *testing.T) {
	later := testTime.Add(time.Minute + 300*time.Millisecond)
	for name, tc := range map[string]struct {
		first, second kubeflowv1.JobCondition
		wantUpdate    time.Time
		wantTransit   time.Time
	}{
		"the same again keeps both": {
			condition("Running", "True", "A", "x"), condition("Running", "True", "A", "y"), testTime, testTime},
		"a new reason keeps the transition": {
			condition("Running", "True", "A", ""), condition("Running", "True", "B", ""), later.Truncate(time.Second), testTime},
		"a new status changes both": {
			condition("Running", "True", "A", ""), condition("Running", "False", "A", ""), later.Truncate(time.Second), later.Truncate(time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			var status kubeflowv1.JobStatus
			setCondition(&status, tc.first, testTime)
			setCondition(&status, tc.second, later)
			got := status.Conditions[0]
			if !got.LastUpdateTime.Time.Equal(tc.wantUpdate) || !got.LastTransitionTime.Time.Equal(tc.wantTransit) {
				t.Errorf("updated %v, transition %v; want %v, %v", got.LastUpdateTime, got.LastTransitionTime, tc.wantUpdate, tc.wantTransit)
			}
		})
	}
}

func TestFinalConditionKeepsWhatRunningSaid(t *testing.T) {
	var status kubeflowv1.JobStatus
	setCondition(&status, runningCondition(makeJob()), testTime)
	want := status.Conditions[0]
	want.Status = corev1.ConditionFalse
	setCondition(&status, succeededCondition(makeJob()), testTime.Add(time.Hour))
	if diff := cmp.Diff(want, status.Conditions[0]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// training-operator writes no state; kubectl shows it all the same, of jobs that are over as well, and it costs one write.
func TestJobsOfOtherControllersGetTheirState(t *testing.T) {
	for want, conditions := range map[kubeflowv1.JobConditionType][]kubeflowv1.JobCondition{
		kubeflowv1.JobSucceeded: {createdCondition(makeJob()), notRunningCondition(makeJob()), succeededCondition(makeJob())},
		kubeflowv1.JobFailed:    {createdCondition(makeJob()), failedCondition("")},
		kubeflowv1.JobSuspended: {createdCondition(makeJob()), suspendedCondition(makeJob())},
		kubeflowv1.JobRunning:   {createdCondition(makeJob()), runningCondition(makeJob())},
	} {
		w := newWorld(t)
		job := makeJob(replicas(worker, 1), statusWith(conditions...))
		job.Spec.RunPolicy.Suspend = new(want == kubeflowv1.JobSuspended)
		job.Status.State = ""
		w.put(resJobs, job)
		w.look()
		if got := w.job().Status.State; got != want {
			t.Errorf("%s is shown as %q", want, got)
		}
		w.look()
		writes := len(w.writes)
		w.look()
		if len(w.writes) > writes {
			t.Errorf("%s: written again: %v", want, w.writes[writes:])
		}
	}
}

// A user may take the end back, to have a job run again.
func TestAJobWhoseEndWasTakenBackHasNone(t *testing.T) {
	job := makeJob(replicas(worker, 1), statusWith(createdCondition(makeJob())), completedAtTime(testTime))
	p := decide(makeView(t, job, makePod("worker", 0, running)), testOptions, testTime)
	if p.status.CompletionTime != nil || p.status.State != kubeflowv1.JobRunning {
		t.Errorf("%s, completed at %v", p.status.State, p.status.CompletionTime)
	}
}
