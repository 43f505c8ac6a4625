// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"time"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// suspend removes everything of a job and says so. Counts of pods that have ended stay; active ones are counted until they are
// told to go, because whoever waits for the job's room must not take it too early.
func suspend(p *plan, v *view, now time.Time) {
	if isTrue(&p.status, kubeflowv1.JobRunning) || isTrue(&p.status, kubeflowv1.JobRestarting) {
		setCondition(&p.status, notRunningCondition(v.job), now)
	}
	if !isTrue(&p.status, kubeflowv1.JobSuspended) {
		setCondition(&p.status, suspendedCondition(v.job), now)
		p.events = append(p.events, jobSuspended(v.job))
	}
	counts := count(v, now)
	for i := range counts {
		if rs := p.status.ReplicaStatuses[counts[i].role.kind]; rs != nil {
			rs.Active = counts[i].active
		}
	}
	clearAway(p, v, now)
}

// clearAway removes everything, and remembers who has succeeded: a suspension does not make them run again.
func clearAway(p *plan, v *view, now time.Time) {
	counts := count(v, now)
	for i := range counts {
		if rs := p.status.ReplicaStatuses[counts[i].role.kind]; rs != nil {
			rs.SucceededIndexes = counts[i].history.succeeded.String()
		}
	}
	p.deletePods = staying(sorted(v.pods))
	p.deleteServices = staying(sorted(v.services))
	p.deleteGroups = staying(sorted(v.groups))
}

// resume starts a suspended job over; deadlines count from here.
func resume(p *plan, v *view, now time.Time) {
	if !isTrue(&p.status, kubeflowv1.JobSuspended) {
		return
	}
	setCondition(&p.status, resumedCondition(v.job), now)
	p.status.StartTime = new(wireTime(now))
	p.events = append(p.events, jobResumed(v.job))
}
