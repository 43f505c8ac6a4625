// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/component-base/metrics/testutil"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// counts are what the counters of namespace n have counted since.
func countsSince(t *testing.T, before map[string]int) map[string]int {
	t.Helper()
	now := map[string]int{}
	for _, counter := range jobCounters {
		value, err := testutil.GetCounterMetricValue(counter.WithLabelValues("n", "tensorflow"))
		if err != nil {
			t.Fatal(err)
		}
		now[counter.Name] = int(value) - before[counter.Name]
	}
	maps.DeleteFunc(now, func(_ string, n int) bool { return before != nil && n == 0 })
	return now
}

func TestCounters(t *testing.T) {
	RegisterMetrics("n")
	const prefix = "training_operator_jobs_"
	in := func(types ...kubeflowv1.JobConditionType) *kubeflowv1.TFJob {
		job := makeJob(replicas(worker, 1))
		for _, c := range types {
			setCondition(&job.Status, condition(c, "True", "TFJob"+string(c), ""), testTime)
		}
		return job
	}
	elsewhere := in(kubeflowv1.JobCreated)
	elsewhere.Spec.RunPolicy.ManagedBy = new(kubeflowv1.ManagedByMultiKueue)
	attempts := func(job *kubeflowv1.TFJob, n ...int32) *kubeflowv1.TFJob {
		rs := &kubeflowv1.ReplicaStatus{}
		for i, attempt := range n {
			rs.Restarts = append(rs.Restarts, kubeflowv1.ReplicaRestarts{Index: int32(i), Attempt: attempt})
		}
		job.Status.ReplicaStatuses = map[kubeflowv1.ReplicaType]*kubeflowv1.ReplicaStatus{worker: rs, ps: nil}
		return job
	}
	again := in()
	again.UID = "job-2"
	const created, running, restarting = kubeflowv1.JobCreated, kubeflowv1.JobRunning, kubeflowv1.JobRestarting
	for name, tc := range map[string]struct {
		before any
		after  *kubeflowv1.TFJob // nil: deleted
		want   map[string]int
	}{
		"the first look at a cluster counts nothing": {nil, in(created, running, kubeflowv1.JobSucceeded), map[string]int{}},
		"a new job":              {in(), in(created), map[string]int{prefix + "created_total": 1}},
		"nothing new":            {in(created), in(created), map[string]int{}},
		"running is not counted": {in(created), in(created, running), map[string]int{}},
		"a restart":              {in(created, running), attempts(in(created, restarting), 1), map[string]int{prefix + "restarted_total": 1}},
		"two at once":            {attempts(in(created, restarting), 1), attempts(in(created, restarting), 2, 1), map[string]int{prefix + "restarted_total": 2}},
		"counts that start anew": {attempts(in(created), 3), attempts(in(created), 0), map[string]int{}},
		"success":                {in(created, running), in(created, running, kubeflowv1.JobSucceeded), map[string]int{prefix + "successful_total": 1}},
		"failure":                {in(created, running), in(created, running, kubeflowv1.JobFailed), map[string]int{prefix + "failed_total": 1}},
		"failed at first sight":  {in(), in(created, kubeflowv1.JobFailed), map[string]int{prefix + "created_total": 1, prefix + "failed_total": 1}},
		"deleted":                {in(created), nil, map[string]int{prefix + "deleted_total": 1}},
		"deleted and made again": {in(created), again, map[string]int{prefix + "deleted_total": 1}},
		"managed by another":     {in(), elsewhere, map[string]int{}},
		"deleted, but another's": {elsewhere, nil, map[string]int{}},
	} {
		t.Run(name, func(t *testing.T) {
			c := &Controller{}
			for _, leading := range []bool{false, true} {
				c.leading.Store(leading)
				before := countsSince(t, nil)
				if tc.after == nil {
					c.countDeletion(tc.before.(*kubeflowv1.TFJob))
				} else {
					c.countChange(tc.before, tc.after)
				}
				want := tc.want
				if !leading {
					want = map[string]int{}
				}
				if diff := cmp.Diff(want, countsSince(t, before)); diff != "" {
					t.Errorf("leading %t (-want +got):\n%s", leading, diff)
				}
			}
		})
	}
}
