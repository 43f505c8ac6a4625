// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

func activeDeadline(n int64) jobOption {
	return func(job *kubeflowv1.TFJob) { job.Spec.RunPolicy.ActiveDeadlineSeconds = &n }
}

func ttl(n int32) jobOption {
	return func(job *kubeflowv1.TFJob) { job.Spec.RunPolicy.TTLSecondsAfterFinished = &n }
}

func startedAt(at time.Time) jobOption {
	return func(job *kubeflowv1.TFJob) { job.Status.StartTime = &metav1.Time{Time: at} }
}

func completedAtTime(at time.Time) jobOption {
	return func(job *kubeflowv1.TFJob) { job.Status.CompletionTime = &metav1.Time{Time: at} }
}

// B31: nothing but the clock has to happen. B30: a job that cannot start is no exception. B26: the clock starts with the job.
func TestB31ActiveDeadlineFires(t *testing.T) {
	for name, tc := range map[string]struct {
		job       *kubeflowv1.TFJob
		pods      []*corev1.Pod
		wantAfter time.Duration
		want      []string
	}{
		"no deadline":               {makeJob(replicas(worker, 1), startedAt(testTime.Add(-time.Hour))), makePods("worker", running), 0, []string{"Created", "Running"}},
		"a new job":                 {makeJob(replicas(worker, 1), activeDeadline(30)), nil, 30 * time.Second, []string{"Created"}},
		"10 s are left":             {makeJob(replicas(worker, 1), activeDeadline(30), startedAt(testTime.Add(-20*time.Second))), makePods("worker", running), 10 * time.Second, []string{"Created", "Running"}},
		"the deadline":              {makeJob(replicas(worker, 1), activeDeadline(30), startedAt(testTime.Add(-30*time.Second))), makePods("worker", running), 0, []string{"Created", "Failed"}},
		"B30 pods that never start": {makeJob(replicas(worker, 2), activeDeadline(60), startedAt(testTime.Add(-61*time.Second))), makePods("worker", running, pending), 0, []string{"Created", "Failed"}},
		"a deadline of 0 is past":   {makeJob(replicas(worker, 1), activeDeadline(0)), nil, 0, []string{"Created", "Failed"}},
		"success in time is seen too late": {
			makeJob(replicas(chief, 1), activeDeadline(30), startedAt(testTime.Add(-31*time.Second))), makePods("chief", succeeded), 0, []string{"Created", "Succeeded"}},
		"a deadline beyond all clocks": {makeJob(replicas(worker, 1), activeDeadline(math.MaxInt64)), makePods("worker", running), math.MaxInt64 / time.Second * time.Second, []string{"Created", "Running"}},
		"suspended":                    {makeJob(replicas(worker, 1), suspended, activeDeadline(30), startedAt(testTime.Add(-time.Hour))), nil, 0, []string{"Created", "Suspended"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := decide(makeView(t, tc.job, tc.pods...), testOptions, testTime)
			if diff := cmp.Diff(tc.want, describe(p.status)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if p.after != tc.wantAfter {
				t.Errorf("the next look is after %v, want %v", p.after, tc.wantAfter)
			}
			if isFinished(&p.status) != (p.status.CompletionTime != nil) {
				t.Error("B27 completionTime is missing or early")
			}
		})
	}
}

func TestL18AJobThatReachedALimitLeavesNothingRunning(t *testing.T) {
	pods := []*corev1.Pod{makePod("worker", 0, running), makePod("worker", 1, succeeded), makePod("worker", 2, pending)}
	failedNow := condition(kubeflowv1.JobFailed, corev1.ConditionTrue, kubeflowv1.TFJobFailedReason, "")
	spent := func(job *kubeflowv1.TFJob) {
		job.Status.ReplicaStatuses = map[kubeflowv1.ReplicaType]*kubeflowv1.ReplicaStatus{worker: {
			Active: 1, Restarts: []kubeflowv1.ReplicaRestarts{{Faults: 2}},
		}}
	}
	onFailure := kubeflowv1.RestartPolicyOnFailure
	stop := []string{"delete pod j-worker-0", "delete pod j-worker-2", "delete service j-worker-0", "delete service j-worker-2", "delete group j"}
	keep := []string{"delete group j"}
	for name, tc := range map[string]struct {
		job  *kubeflowv1.TFJob
		want []string
	}{
		"the deadline":                   {makeJob(replicas(worker, 3), activeDeadline(30), statusWith(failedNow), startedAt(testTime.Add(-31*time.Second)), completedAtTime(testTime)), stop},
		"the backoff limit":              {makeJob(replicas(worker, 3, onFailure), limit(1), statusWith(failedNow), spent, completedAtTime(testTime)), stop},
		"a failure before the deadline":  {makeJob(replicas(worker, 3), activeDeadline(30), statusWith(failedNow), startedAt(testTime.Add(-29*time.Second)), completedAtTime(testTime)), keep},
		"a success after a few restarts": {makeJob(replicas(worker, 3, onFailure), limit(1), statusWith(succeededCondition(makeJob())), spent, completedAtTime(testTime)), keep},
	} {
		t.Run(name, func(t *testing.T) {
			v := makeView(t, tc.job, pods...)
			if diff := cmp.Diff(tc.want, actions(v, decide(v, testOptions, testTime))); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestB35JobsAreDeletedWhenTheirTimeToLiveIsOver(t *testing.T) {
	done := statusWith(createdCondition(makeJob()), succeededCondition(makeJob()))
	lost := statusWith(condition(kubeflowv1.JobFailed, corev1.ConditionTrue, kubeflowv1.TFJobFailedReason, ""))
	for name, tc := range map[string]struct {
		job       *kubeflowv1.TFJob
		want      bool
		wantAfter time.Duration
	}{
		"no time to live":              {makeJob(replicas(worker, 1), done, completedAtTime(testTime.Add(-time.Hour))), false, 0},
		"180 s, completed yesterday":   {makeJob(replicas(worker, 1), ttl(180), done, completedAtTime(testTime.Add(-24*time.Hour))), true, 0},
		"0 s":                          {makeJob(replicas(worker, 1), ttl(0), done, completedAtTime(testTime)), true, 0},
		"a failed job too":             {makeJob(replicas(worker, 1), ttl(3), lost, completedAtTime(testTime.Add(-3*time.Second))), true, 0},
		"B35 it is woken for it":       {makeJob(replicas(worker, 1), ttl(60), done, completedAtTime(testTime.Add(-20*time.Second))), false, 40 * time.Second},
		"L06 without a completionTime": {makeJob(replicas(worker, 1), ttl(5), lost), true, 0}, // the condition is an hour old
		"suspended after its end":      {makeJob(replicas(worker, 1), ttl(0), suspended, done, completedAtTime(testTime)), false, 0},
		"the clock was set back":       {makeJob(replicas(worker, 1), ttl(10), done, completedAtTime(testTime.Add(time.Hour))), false, time.Hour + 10*time.Second},
		"B36 running and suspended":    {makeJob(replicas(worker, 1), ttl(10), suspended, statusWith(runningCondition(makeJob()))), false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			v := makeView(t, tc.job)
			bare(v)
			p := decide(v, testOptions, testTime)
			if p.deleteJob != tc.want || p.after != tc.wantAfter {
				t.Errorf("deleted: %v, next look after %v; want %v, %v", p.deleteJob, p.after, tc.want, tc.wantAfter)
			}
			if isFinished(&p.status) && p.status.CompletionTime == nil {
				t.Error("no completionTime")
			}
		})
	}
}
