// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

const (
	chief     = kubeflowv1.TFJobReplicaTypeChief
	master    = kubeflowv1.TFJobReplicaTypeMaster
	evaluator = kubeflowv1.TFJobReplicaTypeEval
	ps        = kubeflowv1.TFJobReplicaTypePS
	worker    = kubeflowv1.TFJobReplicaTypeWorker

	pending   = corev1.PodPending
	running   = corev1.PodRunning
	succeeded = corev1.PodSucceeded
	failed    = corev1.PodFailed
)

func TestStatusFollowsThePods(t *testing.T) {
	first := exited(0)
	for name, tc := range map[string]struct {
		job  *kubeflowv1.TFJob
		pods [][]*corev1.Pod
		want []string
	}{
		"the chief succeeded": {
			makeJob(replicas(chief, 1)), [][]*corev1.Pod{makePods("chief", succeeded)}, []string{"Created", "Succeeded"}},
		"the chief is running": {
			makeJob(replicas(chief, 1)), [][]*corev1.Pod{makePods("chief", running)}, []string{"Created", "Running"}},
		"the chief failed": {
			makeJob(replicas(chief, 1)), [][]*corev1.Pod{makePods("chief", failed)}, []string{"Created", "Failed"}},
		"the only worker failed": {
			makeJob(replicas(worker, 1)), [][]*corev1.Pod{makePods("worker", failed)}, []string{"Created", "Failed"}},
		"the only worker succeeded": {
			makeJob(replicas(worker, 1)), [][]*corev1.Pod{makePods("worker", succeeded)}, []string{"Created", "Succeeded"}},
		"the only worker is running": {
			makeJob(replicas(worker, 1)), [][]*corev1.Pod{makePods("worker", running)}, []string{"Created", "Running"}},
		"two workers succeeded, worker 0 without an exit code, two run": {
			makeJob(replicas(worker, 4)), [][]*corev1.Pod{makePods("worker", succeeded, succeeded, running, running)}, []string{"Created", "Running"}},
		"two workers run, two failed": {
			makeJob(replicas(worker, 4)), [][]*corev1.Pod{makePods("worker", running, running, failed, failed)}, []string{"Created", "Running False", "Failed"}},
		"two workers succeeded, two failed": {
			makeJob(replicas(worker, 4)), [][]*corev1.Pod{makePods("worker", succeeded, succeeded, failed, failed)}, []string{"Created", "Failed"}},
		"worker 0 is done, three run": {
			makeJob(replicas(worker, 4)), [][]*corev1.Pod{{makePod("worker", 0, succeeded, first)},
				{makePod("worker", 1, running), makePod("worker", 2, running), makePod("worker", 3, running)}}, []string{"Created", "Succeeded"}},
		"worker 0 is done, three run, all workers must succeed": {
			makeJob(replicas(worker, 4), allWorkers), [][]*corev1.Pod{{makePod("worker", 0, succeeded, first)},
				{makePod("worker", 1, running), makePod("worker", 2, running), makePod("worker", 3, running)}}, []string{"Created", "Running"}},
		"all four workers succeeded, as they must": {
			makeJob(replicas(worker, 4), allWorkers), [][]*corev1.Pod{makePods("worker", succeeded, succeeded, succeeded, succeeded)}, []string{"Created", "Succeeded"}},
		"one succeeded, two run, one failed, all workers must succeed": {
			makeJob(replicas(worker, 4), allWorkers), [][]*corev1.Pod{makePods("worker", succeeded, running, running, failed)}, []string{"Created", "Running False", "Failed"}},
		"the chief succeeded, its workers run, all workers must succeed: the chief decides": {
			makeJob(replicas(chief, 1), replicas(worker, 2), allWorkers), [][]*corev1.Pod{makePods("chief", succeeded), makePods("worker", running, running)},
			[]string{"Created", "Succeeded"}},
		"the chief runs, four workers failed": {
			makeJob(replicas(chief, 1), replicas(worker, 4)), [][]*corev1.Pod{makePods("chief", running), makePods("worker", failed, failed, failed, failed)},
			[]string{"Created", "Running False", "Failed"}},
		"the chief runs, the workers succeeded": {
			makeJob(replicas(chief, 1), replicas(worker, 4)), [][]*corev1.Pod{makePods("chief", running), makePods("worker", succeeded, succeeded, succeeded, succeeded)},
			[]string{"Created", "Running"}},
		"the chief runs, the PS failed": {
			makeJob(replicas(chief, 1), replicas(ps, 1)), [][]*corev1.Pod{makePods("chief", running), makePods("ps", failed)},
			[]string{"Created", "Running False", "Failed"}},
		"the chief failed, the workers succeeded": {
			makeJob(replicas(chief, 1), replicas(worker, 4)), [][]*corev1.Pod{makePods("chief", failed), makePods("worker", succeeded, succeeded, succeeded, succeeded)},
			[]string{"Created", "Failed"}},
		"the chief succeeded, the workers failed: the chief's word counts, and only it": {
			makeJob(replicas(chief, 1), replicas(worker, 4)), [][]*corev1.Pod{makePods("chief", succeeded), makePods("worker", failed, failed, failed, failed)},
			[]string{"Created", "Succeeded"}},
		"the chief failed with 130 under ExitCode": {
			makeJob(replicas(chief, 1, kubeflowv1.RestartPolicyExitCode)), [][]*corev1.Pod{{makePod("chief", 0, failed, exited(130))}},
			[]string{"Created", "Restarting"}},
		"the chief failed with 1 under ExitCode": {
			makeJob(replicas(chief, 1, kubeflowv1.RestartPolicyExitCode)), [][]*corev1.Pod{{makePod("chief", 0, failed, exited(1))}},
			[]string{"Created", "Failed"}},

		"everything is pending": {
			makeJob(replicas(ps, 1), replicas(worker, 2)), [][]*corev1.Pod{makePods("ps", pending), makePods("worker", pending, pending)}, []string{"Created"}},
		"the PS runs, no worker does": {
			makeJob(replicas(ps, 1), replicas(worker, 1)), [][]*corev1.Pod{makePods("ps", running), makePods("worker", pending)}, []string{"Created"}},
		"worker 1 succeeded, the others wait": {
			makeJob(replicas(ps, 1), replicas(worker, 3)), [][]*corev1.Pod{makePods("worker", pending, succeeded, pending)}, []string{"Created"}},
		"the tensorflow container of worker 0 ended, its pod still runs": {
			makeJob(replicas(worker, 2)), [][]*corev1.Pod{{makePod("worker", 0, running, first), makePod("worker", 1, running)}}, []string{"Created", "Running"}},
		"the master succeeded": {
			makeJob(replicas(master, 1), replicas(worker, 1)), [][]*corev1.Pod{makePods("master", succeeded), makePods("worker", running)}, []string{"Created", "Succeeded"}},
		"the evaluator failed": {
			makeJob(replicas(evaluator, 1), replicas(worker, 1)), [][]*corev1.Pod{makePods("evaluator", failed), makePods("worker", running)}, []string{"Created", "Failed"}},
		"a chief of no replicas does not count, the workers decide": {
			makeJob(replicas(chief, 0), replicas(worker, 2)), [][]*corev1.Pod{makePods("worker", running, running)}, []string{"Created", "Running"}},
		"a dynamic job loses a worker": {
			makeJob(replicas(ps, 1), replicas(worker, 3), dynamic), [][]*corev1.Pod{makePods("ps", running), makePods("worker", running, running, failed)}, []string{"Created", "Running"}},
		"a dynamic job loses its PS": {
			makeJob(replicas(ps, 1), replicas(worker, 1), dynamic), [][]*corev1.Pod{makePods("ps", failed), makePods("worker", running)}, []string{"Created", "Failed"}},
		"a running worker is being deleted, its policy lets it come back": {
			makeJob(replicas(worker, 2, kubeflowv1.RestartPolicyOnFailure)),
			[][]*corev1.Pod{{makePod("worker", 0, running), makePod("worker", 1, running, terminating)}}, []string{"Created", "Running"}},
		"a worker was preempted": {
			makeJob(replicas(worker, 2, kubeflowv1.RestartPolicyOnFailure)), [][]*corev1.Pod{makePods("worker", running, failed)}, []string{"Created", "Restarting"}},
		"one worker may be replaced, another may not": {
			makeJob(replicas(worker, 2, kubeflowv1.RestartPolicyExitCode)),
			[][]*corev1.Pod{{makePod("worker", 0, failed, exited(137)), makePod("worker", 1, failed, exited(2))}}, []string{"Created", "Failed"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := decide(makeView(t, tc.job, slices.Concat(tc.pods...)...), testOptions, testTime)
			if diff := cmp.Diff(tc.want, describe(p.status)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if isFinished(&p.status) != (p.status.CompletionTime != nil) {
				t.Errorf("finished is %v, completionTime is %v", isFinished(&p.status), p.status.CompletionTime)
			}
			if last := tc.want[len(tc.want)-1]; string(p.status.State) != last {
				t.Errorf("state is %q, want %q", p.status.State, last)
			}
			if p.status.StartTime == nil {
				t.Error("no startTime")
			}
		})
	}
}

func TestASecondLookAtTheSamePodsChangesNothing(t *testing.T) {
	onFailure := kubeflowv1.RestartPolicyOnFailure
	for name, tc := range map[string]struct {
		job  *kubeflowv1.TFJob
		pods []*corev1.Pod
	}{
		"pending":                       {makeJob(replicas(worker, 2)), makePods("worker", pending, pending)},
		"running":                       {makeJob(replicas(worker, 2)), makePods("worker", running, running)},
		"running beside a failed pod":   {makeJob(replicas(worker, 2, onFailure)), makePods("worker", running, failed)},
		"a chief and a restarting PS":   {makeJob(replicas(chief, 1), replicas(ps, 1, onFailure)), slices.Concat(makePods("chief", running), makePods("ps", failed))},
		"two roles restart at once":     {makeJob(replicas(worker, 1, onFailure), replicas(ps, 1, onFailure)), slices.Concat(makePods("worker", failed), makePods("ps", failed))},
		"succeeded":                     {makeJob(replicas(worker, 1)), makePods("worker", succeeded)},
		"failed beside running workers": {makeJob(replicas(worker, 2)), makePods("worker", running, failed)},
		"suspended":                     {makeJob(replicas(worker, 1), suspended), nil},
	} {
		t.Run(name, func(t *testing.T) {
			first := decide(makeView(t, tc.job, tc.pods...), testOptions, testTime)
			tc.job.Status = first.status
			second := decide(makeView(t, tc.job, tc.pods...), testOptions, testTime.Add(time.Hour))
			if diff := cmp.Diff(first.status, second.status); diff != "" {
				t.Errorf("status (-first +second):\n%s", diff)
			}
			if len(second.events) > 0 {
				t.Errorf("events again: %v", second.events)
			}
		})
	}
}

func TestReplicaStatusesCount(t *testing.T) {
	job := makeJob(replicas(ps, 2), replicas(worker, 6, kubeflowv1.RestartPolicyOnFailure))
	pods := slices.Concat(makePods("ps", running, pending), makePods("worker", running, running, failed, succeeded))
	pods = append(pods, makePod("worker", 4, running, terminating), makePod("worker", 17, running))
	p := decide(makeView(t, job, pods...), testOptions, testTime)
	want := map[kubeflowv1.ReplicaType]*kubeflowv1.ReplicaStatus{
		ps: {Active: 1},
		worker: {Active: 2, Succeeded: 1, Failed: 1, SucceededIndexes: "3", Restarts: []kubeflowv1.ReplicaRestarts{
			{Index: 2, Attempt: 1, Faults: 1, InARow: 1, LastFailureTime: new(wireTime(testTime))},
		}},
	}
	if diff := cmp.Diff(want, p.status.ReplicaStatuses); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhatRunsBesideASuccessCountsAsSucceeded(t *testing.T) {
	job := makeJob(replicas(chief, 1), replicas(ps, 2))
	p := decide(makeView(t, job, slices.Concat(makePods("chief", succeeded), makePods("ps", running, running))...), testOptions, testTime)
	want := map[kubeflowv1.ReplicaType]*kubeflowv1.ReplicaStatus{chief: {Succeeded: 1, SucceededIndexes: "0"}, ps: {Succeeded: 2}}
	if diff := cmp.Diff(want, p.status.ReplicaStatuses); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFailureNamesRoleCountAndCode(t *testing.T) {
	job := makeJob(replicas(ps, 2), replicas(worker, 1))
	pods := []*corev1.Pod{makePod("ps", 0, failed, exited(3)), makePod("ps", 1, failed), makePod("worker", 0, running)}
	p := decide(makeView(t, job, pods...), testOptions, testTime)
	last := p.status.Conditions[len(p.status.Conditions)-1]
	if want := "TFJob j failed because 2 PS replica(s) failed; j-ps-0 exited with code 3."; last.Message != want || last.Reason != "TFJobFailed" {
		t.Errorf("got %s: %s, want TFJobFailed: %s", last.Reason, last.Message, want)
	}
	if diff := cmp.Diff([]string{"ExitedWithCode", "TFJobFailed"}, reasons(p.events)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
