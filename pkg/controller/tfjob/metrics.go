// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// Counters of jobs, under the names that upstream's dashboards know. A transition is counted when the watch shows that it is
// stored: once, whatever became of the request that asked for it. Only the leader counts.
var (
	jobsCreated    = jobCounter("created", "Jobs that were seen for the first time.")
	jobsDeleted    = jobCounter("deleted", "Jobs that were deleted, by whomever.")
	jobsSuccessful = jobCounter("successful", "Jobs that succeeded.")
	jobsFailed     = jobCounter("failed", "Jobs that failed.")
	jobsRestarted  = jobCounter("restarted", "Pods of jobs that failed and were replaced.")

	jobCounters = []*metrics.CounterVec{jobsCreated, jobsDeleted, jobsSuccessful, jobsFailed, jobsRestarted}
)

func jobCounter(what, help string) *metrics.CounterVec {
	return metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "training_operator_jobs_" + what + "_total",
		Help:           help,
		StabilityLevel: metrics.ALPHA,
	}, []string{"job_namespace", "framework"})
}

var registerOnce sync.Once

// RegisterMetrics makes the counters known to the process's registry. They are there from the start for the namespace, and for
// every other one from its first job on.
func RegisterMetrics(namespace string) {
	registerOnce.Do(func() {
		for _, counter := range jobCounters {
			legacyregistry.MustRegister(counter)
		}
	})
	showCounters(namespace)
}

// showCounters makes all series of a namespace visible, at zero: what appears with its first event has no rate at that time.
func showCounters(namespace string) {
	for _, counter := range jobCounters {
		counter.WithLabelValues(namespace, kubeflowv1.TFJobFrameworkName)
	}
}

// countChange counts what an update of a job says has happened. What is there when the process starts has been counted by another.
func (c *Controller) countChange(before any, job *kubeflowv1.TFJob) {
	old, ok := before.(*kubeflowv1.TFJob)
	if !ok {
		showCounters(job.Namespace)
		return
	}
	if !c.leading.Load() || isManagedElsewhere(job) {
		return
	}
	last := &old.Status
	if old.UID != job.UID {
		c.countDeletion(old)
		last = &kubeflowv1.JobStatus{}
	}
	became := func(t kubeflowv1.JobConditionType) bool { return isTrue(&job.Status, t) && !isTrue(last, t) }
	for counter, hasHappened := range map[*metrics.CounterVec]bool{
		jobsCreated:    became(kubeflowv1.JobCreated),
		jobsSuccessful: became(kubeflowv1.JobSucceeded),
		jobsFailed:     became(kubeflowv1.JobFailed),
	} {
		if hasHappened {
			counter.WithLabelValues(job.Namespace, kubeflowv1.TFJobFrameworkName).Inc()
		}
	}
	if restarts := replaced(&job.Status) - replaced(last); restarts > 0 {
		jobsRestarted.WithLabelValues(job.Namespace, kubeflowv1.TFJobFrameworkName).Add(float64(restarts))
	}
}

// replaced is how many pods of a job have been replaced so far.
func replaced(status *kubeflowv1.JobStatus) (n int) {
	for _, rs := range status.ReplicaStatuses {
		if rs == nil {
			continue
		}
		for _, r := range rs.Restarts {
			n += int(r.Attempt)
		}
	}
	return n
}

func (c *Controller) countDeletion(job *kubeflowv1.TFJob) {
	if c.leading.Load() && !isManagedElsewhere(job) {
		jobsDeleted.WithLabelValues(job.Namespace, kubeflowv1.TFJobFrameworkName).Inc()
	}
}
