// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	"github.com/tutti-project/tutti/pkg/clusterspec"
)

// plan is what a reconcile will do, in the order of its fields.
type plan struct {
	// status is what to report; events are those of its change, and are sent only if it is written.
	status kubeflowv1.JobStatus
	events []event

	restartPods    []*corev1.Pod // deleted because they failed; their slots are filled again when they are gone
	deletePods     []*corev1.Pod
	deleteServices []*corev1.Service
	deleteGroups   []podGroup

	createGroup    podGroup
	patchGroup     []byte
	createServices []address
	createPods     []newcomer

	// complaint is why a job that has run cannot be run as it is now; it is told once.
	complaint string

	// overdue are pods that were to go and are there long after.
	overdue []*corev1.Pod

	// deleteJob: the job has outlived its end for as long as it was to.
	deleteJob bool

	// after is when to look again even if nothing happens; zero is never.
	after time.Duration
}

// lookAgain makes sure that the job is looked at again at the given time.
func (p *plan) lookAgain(at, now time.Time) {
	if wait := max(time.Millisecond, at.Sub(now)); p.after == 0 || wait < p.after {
		p.after = wait
	}
}

// isIdle tells whether nothing is to be created, changed or deleted.
func (p *plan) isIdle() bool {
	return len(p.restartPods) == 0 && len(p.deletePods) == 0 && len(p.deleteServices) == 0 && len(p.deleteGroups) == 0 &&
		p.createGroup == nil && p.patchGroup == nil && !p.deleteJob && len(p.overdue) == 0 && len(p.createServices) == 0 && len(p.createPods) == 0
}

// decide is the whole of the controller's judgement. It is pure.
func decide(v *view, options Options, now time.Time) *plan {
	p := &plan{status: *v.stored.Status.DeepCopy()}
	// A schema that is not ours may let null through.
	maps.DeleteFunc(p.status.ReplicaStatuses, func(_ kubeflowv1.ReplicaType, rs *kubeflowv1.ReplicaStatus) bool { return rs == nil })
	// Other controllers write conditions and no state.
	p.status.State = stateFrom(p.status.Conditions)
	findOverdue(p, v, options, now)
	if len(v.open) > 0 || len(v.foreign) > 0 {
		p.lookAgain(now.Add(ledgerTerm), now)
	}
	if isFinished(&p.status) {
		finish(p, v, now)
		return p
	}
	p.status.CompletionTime = nil // somebody may have taken the end back
	begin(p, v, options, now)
	problems := v.problems
	if options.PodGroups != nil && len(problems) == 0 {
		problems = validateGang(v)
	}
	if len(problems) == 0 && v.refused != "" && !hasRun(&p.status) {
		problems = []string{"the API server refuses what it is made of: " + v.refused}
	}
	switch {
	case len(problems) > 0 && !hasRun(&p.status):
		p.events = append(p.events, invalidate(&p.status, problems, now)...)
	case ptr.Deref(v.job.Spec.RunPolicy.Suspend, false):
		suspend(p, v, now)
	case isTrue(&p.status, kubeflowv1.JobSuspended) && !v.isEmpty():
		// Pods of before the suspension would be taken for pods of after it, so the job resumes when they are gone.
		clearAway(p, v, now)
	case len(problems) > 0:
		p.complaint = strings.Join(problems, "; ")
		goOn(p, v, now)
	default:
		resume(p, v, now)
		run(p, v, options, now)
	}
	return p
}

// hasRun tells whether a job has ever got to work. One that has is not ended for an edit that cannot be carried out: its user may take
// that back.
func hasRun(status *kubeflowv1.JobStatus) bool {
	return findCondition(status, kubeflowv1.JobRunning) != nil || findCondition(status, kubeflowv1.JobRestarting) != nil
}

// begin greets a new job.
func begin(p *plan, v *view, options Options, now time.Time) {
	if findCondition(&p.status, kubeflowv1.JobCreated) != nil {
		return
	}
	setCondition(&p.status, createdCondition(v.job), now)
	if longest := longestVariable(v, options.Domain); longest.Size() > clusterspec.MaxSize {
		p.events = append(p.events, environmentTooLong(longest))
	}
	for i := range v.roles {
		r := &v.roles[i]
		if r.spec.Template.Spec.RestartPolicy != "" {
			p.events = append(p.events, templateRestartPolicyIgnored(r))
		}
		if name := r.spec.Template.Spec.SchedulerName; options.PodGroups != nil && name != "" && name != options.SchedulerName {
			p.events = append(p.events, templateSchedulerKept(r))
		}
	}
}

// run keeps a job going: judge it by its pods, and fill what is missing unless that ended it.
func run(p *plan, v *view, options Options, now time.Time) {
	if p.status.StartTime == nil {
		p.status.StartTime = new(wireTime(now))
	}
	counts := count(v, now)
	assess(p, v, counts, now)
	if isFinished(&p.status) {
		return // the next reconcile cleans up
	}
	for i := range counts {
		p.restartPods = append(p.restartPods, staying(counts[i].restarting)...)
		if counts[i].waiting > 0 {
			p.lookAgain(counts[i].nextDue, now)
		}
	}
	dropSurplus(p, v)
	fillGaps(p, v, counts, options, now)
}

// assess moves the status to what the pods say.
func assess(p *plan, v *view, counts []roleCount, now time.Time) {
	p.events = append(p.events, judge(&p.status, v.job, counts, now)...)
	if deadline := deadlineOf(&p.status, v.job); deadline != nil && !isFinished(&p.status) {
		p.lookAgain(*deadline, now)
	}
}

// goOn is for a job that has run and was edited into one that cannot be: its pods are left alone, and end it or not, until that is taken
// back. Of a role that cannot be read any more nothing is forgotten. If it is the chief or master, the job is not judged: nobody decides in
// its place.
func goOn(p *plan, v *view, now time.Time) {
	former, specs := p.status.ReplicaStatuses, v.job.Spec.TFReplicaSpecs
	isHidden := func(t kubeflowv1.ReplicaType) bool { return former[t] != nil && specs[t] == nil }
	if isTrue(&p.status, kubeflowv1.JobSuspended) || isHidden(kubeflowv1.TFJobReplicaTypeChief) || isHidden(kubeflowv1.TFJobReplicaTypeMaster) {
		return
	}
	assess(p, v, count(v, now), now)
	for t := range former {
		if isHidden(t) {
			p.status.ReplicaStatuses[t] = former[t]
		}
	}
}

// slots lists the places of all replicas, roles in order.
func (v *view) slots() []slot {
	var slots []slot
	for i := range v.roles {
		for index := range v.roles[i].replicas {
			slots = append(slots, slot{&v.roles[i], index})
		}
	}
	return slots
}

// isEmpty tells whether nothing of the job exists or is on its way.
func (v *view) isEmpty() bool {
	return len(v.pods) == 0 && len(v.services) == 0 && len(v.groups) == 0 && len(v.open) == 0
}

// staying leaves out what is being deleted already.
func staying[T metav1.Object](objects []T) []T {
	return slices.DeleteFunc(slices.Clone(objects), func(o T) bool { return o.GetDeletionTimestamp() != nil })
}

func sorted[T any](objects map[string]T) []T {
	list := make([]T, 0, len(objects))
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		list = append(list, objects[name])
	}
	return list
}
