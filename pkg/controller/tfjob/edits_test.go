// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// A job that has run and was edited into one that cannot be run keeps its pods, is told why once, still ends by what its pods do, and
// carries on when the edit is taken back.
func TestAnImpossibleEditLeavesAJobThatHasRunAlone(t *testing.T) {
	annotate := func(key, value string) jobOption {
		return func(job *kubeflowv1.TFJob) { job.Annotations = map[string]string{key: value} }
	}
	for name, tc := range map[string]struct {
		edit jobOption
		told string
		// unread: the edit hides a role, and the job is not judged.
		unread bool
	}{
		"an annotation that cannot be read":       {edit: annotate("tutti.dev/completion", "main-contaner"), told: "tutti.dev/completion"},
		"another one":                             {edit: annotate("tutti.dev/services", "none"), told: "tutti.dev/services"},
		"no replicas at all":                      {edit: func(job *kubeflowv1.TFJob) { replicas(ps, 0)(job); replicas(worker, 0)(job) }, told: "0 replicas", unread: true},
		"more replicas than there can be":         {edit: replicas(ps, maxReplicas), told: "at most"},
		"as many PS as can be written":            {edit: replicas(ps, math.MaxInt32), told: "there are 2147483649 replicas; at most"},
		"as many workers as can be written":       {edit: replicas(worker, math.MaxInt32), told: "there are 2147483648 replicas; at most"},
		"as many of both, in the legacy shape":    {edit: legacyReplicas(math.MaxInt32), told: "there are 4294967294 replicas; at most"},
		"a number of replicas below zero":         {edit: replicas(ps, -1), told: "negative"},
		"roles of two priority classes":           {edit: inTemplate(ps, class("low")), told: "priority class"},
		"a template without the container":        {edit: inTemplate(worker, func(pod *corev1.PodSpec) { pod.Containers[0].Name = "tensorlow" }), told: "no container is named"},
		"a restart policy of another PS":          {edit: replicas(ps, 1, "Sometimes"), told: "restart policy"},
		"a chief beside a master":                 {edit: func(job *kubeflowv1.TFJob) { replicas(chief, 1)(job); replicas(master, 1)(job) }, told: "both Chief and Master", unread: true},
		"a type that there is not, in addition":   {edit: replicas("Workers", 1), told: `"Workers"`},
		"a type that there is not, instead":       {edit: func(job *kubeflowv1.TFJob) { delete(job.Spec.TFReplicaSpecs, worker); replicas("Workers", 2)(job) }, told: `"Workers"`, unread: true},
		"null in place of the workers":            {edit: func(job *kubeflowv1.TFJob) { job.Spec.TFReplicaSpecs[worker] = nil }, told: "Worker is null", unread: true},
		"nothing in place of all roles":           {edit: func(job *kubeflowv1.TFJob) { job.Spec.TFReplicaSpecs = nil }, told: "no replicas", unread: true},
		"both shapes, and neither can be chosen ": {edit: func(job *kubeflowv1.TFJob) { job.Spec.ReplicaSpecs = make([]kubeflowv1.LegacyReplicaSpec, 1) }, told: "both tfReplicaSpecs and replicaSpecs"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.put(resJobs, makeJob(replicas(ps, 1), replicas(worker, 2)))
			w.look()
			w.setPhases("", corev1.PodRunning)
			w.look()
			before, writes := w.job().DeepCopy(), len(w.writes)
			w.events.lines = nil
			w.edit(tc.edit)
			mustBeBounded(t, w.job())
			for range 3 {
				w.look()
			}
			if state := w.job().Status.State; state != kubeflowv1.JobRunning || slices.ContainsFunc(w.writes[writes:], func(action string) bool { return !strings.Contains(action, "tfjobs") }) {
				t.Fatalf("%s, writes %v", state, w.writes[writes:])
			}
			if len(w.events.lines) != 1 || !strings.HasPrefix(w.events.lines[0], "TFJobFailedValidation: ") || !strings.Contains(w.events.lines[0], tc.told) {
				t.Errorf("events %q", w.events.lines)
			}
			w.setPhase("j-worker-0", corev1.PodSucceeded, exited(0))
			w.look()
			if ended := isFinished(&w.job().Status); ended == tc.unread {
				t.Errorf("when worker 0 is done: %v", describe(w.job().Status))
			}
			w.edit(func(job *kubeflowv1.TFJob) { job.Spec, job.Annotations = before.Spec, before.Annotations })
			w.look()
			if state := w.job().Status.State; state != kubeflowv1.JobSucceeded {
				t.Errorf("when it is taken back: %v", describe(w.job().Status))
			}
		})
	}
}

// mustBeBounded stops a test that would loop over more replicas than a job can have; it would stall the machine rather than fail.
func mustBeBounded(t *testing.T, job *kubeflowv1.TFJob) {
	t.Helper()
	edited, _ := canonical(job)
	for _, r := range rolesFrom(edited) {
		if r.replicas > maxReplicas {
			t.Fatalf("%d replicas of %s would be looked at", r.replicas, r.kind)
		}
	}
	giveUp := time.AfterFunc(time.Minute, func() { panic("the test goes on for ever: " + t.Name()) })
	t.Cleanup(func() { giveUp.Stop() })
}

// legacyReplicas are so many workers and so many PS.
func legacyReplicas(n int32) jobOption {
	return func(job *kubeflowv1.TFJob) {
		job.Spec.TFReplicaSpecs = nil
		for _, kind := range []kubeflowv1.ReplicaType{"WORKER", "PS"} {
			job.Spec.ReplicaSpecs = append(job.Spec.ReplicaSpecs, kubeflowv1.LegacyReplicaSpec{TFReplicaType: kind, Replicas: &n, Template: new(template("tf:1"))})
		}
	}
}

// Such a job can be suspended, and does not start again before it can; its deadline counts as ever.
func TestAnImpossibleEditHoldsUpNoSuspensionAndNoDeadline(t *testing.T) {
	for name, edit := range map[string]jobOption{
		"an annotation that cannot be read":  func(job *kubeflowv1.TFJob) { job.Annotations = map[string]string{"tutti.dev/completion": "?"} },
		"as many workers as can be written":  replicas(worker, math.MaxInt32),
		"as many in every role":              everyRole(math.MaxInt32),
		"as many of both, in another shape ": legacyReplicas(math.MaxInt32),
	} {
		t.Run(name, func(t *testing.T) { holdsUpNothing(t, edit) })
	}
}

func everyRole(n int32) jobOption {
	return func(job *kubeflowv1.TFJob) {
		for _, kind := range replicaTypes {
			replicas(kind, n)(job)
		}
	}
}

func holdsUpNothing(t *testing.T, edit jobOption) {
	start := func() (w *world, takeBack func(*kubeflowv1.TFJob)) {
		w = newWorld(t)
		w.put(resJobs, makeJob(replicas(worker, 2), activeDeadline(3600)))
		w.look()
		w.setPhases("", corev1.PodRunning)
		w.look()
		before := w.job().DeepCopy()
		w.edit(edit)
		mustBeBounded(t, w.job())
		w.look()
		return w, func(job *kubeflowv1.TFJob) {
			job.Annotations, job.Spec.TFReplicaSpecs, job.Spec.ReplicaSpecs = before.Annotations, before.Spec.TFReplicaSpecs, before.Spec.ReplicaSpecs
		}
	}
	w, takeBack := start()
	w.edit(suspended)
	w.look()
	for _, name := range w.podNames() {
		w.remove(resPods, name)
	}
	w.edit(func(job *kubeflowv1.TFJob) { job.Spec.RunPolicy.Suspend = new(false) })
	w.look()
	w.look()
	if state := w.job().Status.State; state != kubeflowv1.JobSuspended || len(w.podNames()) > 0 {
		t.Errorf("suspended and resumed: %s, pods %v", state, w.podNames())
	}
	w.edit(takeBack)
	w.look()
	if len(w.podNames()) != 2 {
		t.Errorf("taken back: %s, pods %v", w.job().Status.State, w.podNames())
	}

	w, _ = start()
	if w.after == 0 || w.after > time.Hour {
		t.Errorf("the next look is after %v", w.after)
	}
	w.clock = w.clock.Add(time.Hour)
	w.look()
	if state := w.job().Status.State; state != kubeflowv1.JobFailed {
		t.Errorf("after its deadline: %s", state)
	}
}

// A chief whose name an edit has spoilt still decides, and what was counted of the roles is not forgotten.
func TestAnImpossibleEditForgetsNoRole(t *testing.T) {
	w := newWorld(t)
	w.put(resJobs, makeJob(replicas(chief, 1), replicas(worker, 2, kubeflowv1.RestartPolicyOnFailure)))
	w.look()
	w.setPhases("", corev1.PodRunning, restarted(3))
	w.look()
	before := w.job().DeepCopy()
	for name, edit := range map[string]jobOption{
		"the chief":   func(job *kubeflowv1.TFJob) { delete(job.Spec.TFReplicaSpecs, chief); replicas("Boss", 1)(job) },
		"the workers": func(job *kubeflowv1.TFJob) { job.Spec.TFReplicaSpecs[worker] = nil },
	} {
		w.edit(edit)
		w.setPhase("j-worker-0", corev1.PodSucceeded, exited(0))
		w.look()
		if isFinished(&w.job().Status) {
			t.Errorf("without %s: %v", name, describe(w.job().Status))
		}
		w.setPhase("j-worker-0", corev1.PodRunning, restarted(3))
		w.edit(func(job *kubeflowv1.TFJob) { job.Spec = before.Spec })
		w.look()
		if got := w.job().Status.ReplicaStatuses[worker].Restarts; len(got) != 2 || got[0].ContainerRestarts != 3 {
			t.Errorf("after %s came back: %+v", name, got)
		}
	}
}
