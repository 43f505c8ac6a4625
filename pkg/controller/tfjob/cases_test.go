// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	schedulingv1alpha1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// Cases that users of training-operator have reported (B) or that can be read out of it (L), as decisions. docs/cases.md lists all of
// them with their tests.
func TestReportedDecisions(t *testing.T) {
	now := func(c kubeflowv1.JobConditionType, r string) kubeflowv1.JobCondition {
		return condition(c, corev1.ConditionTrue, r, "")
	}
	done := statusWith(now("Created", "TFJobCreated"), now("Succeeded", "TFJobSucceeded"))
	ended := func(opts ...jobOption) *kubeflowv1.TFJob {
		return makeJob(append([]jobOption{replicas(chief, 1), replicas(ps, 1), done, completedAtTime(testTime)}, opts...)...)
	}
	chiefDone := []*corev1.Pod{makePod("chief", 0, succeeded, exited(0)), makePod("ps", 0, running)}
	w := func(phases ...corev1.PodPhase) []*corev1.Pod { return makePods("worker", phases...) }
	named := func(name string) jobOption { return func(job *kubeflowv1.TFJob) { job.Name = name } }
	for name, tc := range map[string]struct {
		job     *kubeflowv1.TFJob
		pods    []*corev1.Pod
		want    []string
		actions []string
	}{
		"B03 types are compared in one case": {makeJob(replicas("WORKER", 2)), w(running, running), []string{"Created", "Running"}, nil},
		"B16 worker 0 is done, the others run": {makeJob(replicas(worker, 4)), append(w(running, running, running, running)[1:], makePod("worker", 0, succeeded, exited(0))),
			[]string{"Created", "Succeeded"}, nil},
		"B17 the training ended, its pod has not":               {makeJob(replicas(worker, 1)), []*corev1.Pod{makePod("worker", 0, running, exited(0))}, []string{"Created", "Running"}, nil},
		"B18 a PS is lost":                                      {makeJob(replicas(ps, 1), replicas(worker, 2)), append(w(running, running), makePod("ps", 0, failed)), []string{"Created", "Failed"}, nil},
		"B19 lost and running in one look":                      {makeJob(replicas(worker, 2)), w(failed, running), []string{"Created", "Running False", "Failed"}, nil},
		"B23 a dynamic job without one worker":                  {makeJob(replicas(ps, 1), replicas(worker, 3), dynamic), append(w(running, running, failed), makePod("ps", 0, running)), []string{"Created", "Running"}, nil},
		"B23 a dynamic job without any worker":                  {makeJob(replicas(ps, 1), replicas(worker, 3), dynamic), append(w(failed, failed, failed), makePod("ps", 0, running)), []string{"Created", "Failed"}, nil},
		"B23 one of whose workers is done, and the others lost": {makeJob(replicas(worker, 3), dynamic, allWorkers), w(succeeded, failed, failed), []string{"Created", "Failed"}, nil},
		"B23 a dynamic job without any worker, beside a chief":  {makeJob(replicas(chief, 1), replicas(worker, 1), dynamic), append(w(failed), makePod("chief", 0, running)), []string{"Created", "Running"}, nil},
		"B33 a chief alone":                                     {makeJob(replicas(chief, 1)), makePods("chief", running), []string{"Created", "Running"}, nil},
		"B34 a chief without its workers":                       {makeJob(replicas(chief, 1), replicas(worker, 4)), append(w(failed, failed, failed, failed), makePod("chief", 0, running)), []string{"Created", "Running False", "Failed"}, nil},
		"B38 None: the PS stays":                                {ended(), chiefDone, []string{"Created", "Succeeded"}, []string{"delete group j"}},
		"B38 Running: the PS goes, the chief's log stays": {ended(cleaning("Running")), chiefDone, []string{"Created", "Succeeded"},
			[]string{"delete pod j-ps-0", "delete service j-ps-0", "delete group j"}},
		"B38 All: everything goes": {ended(cleaning("All")), chiefDone, []string{"Created", "Succeeded"},
			[]string{"delete pod j-chief-0", "delete pod j-ps-0", "delete service j-chief-0", "delete service j-ps-0", "delete group j"}},
		"B39 what waits would start later": {ended(replicas(worker, 1), cleaning("Running")), append(chiefDone[:1:1], makePod("worker", 0, pending)), []string{"Created", "Succeeded"},
			[]string{"delete pod j-worker-0", "delete service j-ps-0", "delete service j-worker-0", "delete group j"}},
		"B42 60 letters": {makeJob(named(strings.Repeat("a", 60)), replicas(worker, 2)), nil, []string{"Created", "Failed"}, nil},
		"L01 the chief has succeeded, a worker is lost": {makeJob(replicas(chief, 1), replicas(worker, 1)), append(w(failed), makePod("chief", 0, succeeded)), []string{"Created", "Succeeded"}, nil},
		"L07 a chief of no replicas is no chief":        {makeJob(replicas(chief, 0), replicas(worker, 2)), w(running, running), []string{"Created", "Running"}, nil},
		"L07 no workers":                                {makeJob(replicas(worker, 0), replicas(ps, 1)), makePods("ps", running), []string{"Created"}, nil},
		"L12 a null role": {makeJob(func(job *kubeflowv1.TFJob) {
			job.Spec.TFReplicaSpecs = map[kubeflowv1.ReplicaType]*kubeflowv1.ReplicaSpec{worker: nil}
		}), nil, []string{"Created", "Failed"}, nil},
		"L12 no container":             {makeJob(replicas(worker, 1), inTemplate(worker, func(pod *corev1.PodSpec) { pod.Containers = nil })), nil, []string{"Created", "Failed"}, nil},
		"L13 a type that there is not": {makeJob(replicas("Workers", 1)), nil, []string{"Created", "Failed"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			v := makeView(t, tc.job, tc.pods...)
			p := decide(v, testOptions, testTime)
			if diff := cmp.Diff(tc.want, describe(p.status)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.actions, actions(v, p)); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
			if isFinished(&p.status) != (p.status.CompletionTime != nil) {
				t.Error("B27 completionTime if and only if the job has ended")
			}
		})
	}
}

func TestB12B53WhatIsGoneIsGone(t *testing.T) {
	w := newWorld(t)
	w.put(resJobs, gangJob(kubeflowv1.CleanPodPolicyAll))
	w.settle()
	groups := 0
	for _, action := range w.writes {
		if action == "delete podgroups j" {
			groups++
		}
	}
	told := slices.DeleteFunc(slices.Clone(w.events.lines), func(line string) bool { return !strings.HasPrefix(line, "SuccessfulDeletePodGroup") })
	if groups != 1 || len(told) != 1 {
		t.Errorf("B53 the group is deleted %d times, events %v", groups, told)
	}

	w = newWorld(t)
	w.put(resJobs, gangJob(kubeflowv1.CleanPodPolicyAll))
	w.deliverAll()
	if err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	w.deliverAll()
	w.edit(suspended)
	w.deliver(resJobs, 1)
	w.remove(resServices, "j-ps-0") // the cache does not know
	w.events.lines = nil
	if err := w.reconcile(); err != nil {
		t.Errorf("B12 %v", err)
	}
	if len(w.objects[resPods])+len(w.objects[resServices])+len(w.objects[resGroups]) > 0 {
		t.Errorf("B12 left over: %v", w.end())
	}
	if slices.ContainsFunc(w.events.lines, func(line string) bool { return strings.Contains(line, "j-ps-0") && strings.Contains(line, "Service") }) {
		t.Errorf("B12 events: %v", w.events.lines)
	}
}

func TestB15ATombstoneWakesTheJobAndSettlesTheLedger(t *testing.T) {
	w := newWorld(t)
	w.put(resJobs, gangJob(kubeflowv1.CleanPodPolicyNone))
	w.deliverAll()
	pod := makePod("worker", 0, running, controlledBy("j", "TFJob"))
	pod.OwnerReferences[0].UID = "job-1"
	w.controller.ledger.enter("job-1", deletion(kindPod, pod.UID), w.now())
	w.controller.leading.Store(true)
	w.controller.objectGone(kindPod, cache.DeletedFinalStateUnknown{Key: "n/j-worker-0", Obj: pod})
	if open := w.controller.ledger.open("job-1", w.now()); len(open) > 0 {
		t.Errorf("open: %v", open)
	}
	waitForQueue(t, w)
	w.controller.objectGone(kindPod, cache.DeletedFinalStateUnknown{Key: "n/j-worker-0", Obj: nil})
	w.controller.objectGone(kindPod, nil)
}

func TestB54B57AChangeOfThePodGroupWakesTheJob(t *testing.T) {
	w := newWorld(t)
	w.put(resJobs, gangJob(kubeflowv1.CleanPodPolicyNone))
	w.deliverAll()
	before := &schedulingv1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "j", Namespace: "n", ResourceVersion: "1",
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(w.job(), jobKind)}}}
	after := before.DeepCopy()
	after.ResourceVersion, after.Status.Phase = "2", "Scheduled"
	w.controller.leading.Store(true)
	w.controller.objectChanged(kindPodGroup, before, after)
	waitForQueue(t, w)
}

// waitForQueue waits until the job is in the queue, and takes it out.
func waitForQueue(t *testing.T, w *world) {
	t.Helper()
	got := make(chan string)
	go func() {
		key, _ := w.controller.queue.Get()
		w.controller.queue.Done(key)
		got <- key.String()
	}()
	select {
	case key := <-got:
		if key != "n/j" {
			t.Errorf("%s is woken", key)
		}
	case <-time.After(10 * time.Second):
		t.Error("the job is not woken")
	}
}

// B02: reconciles that run ahead of the caches, with only some of what was created delivered.
func TestB02NothingIsCreatedTwice(t *testing.T) {
	for _, seen := range []string{resPods, resServices, resGroups} {
		w := newWorld(t)
		w.put(resJobs, makeJob(replicas(ps, 1), replicas(worker, 4)))
		w.deliver(resJobs, 1)
		if err := w.reconcile(); err != nil {
			t.Fatal(err)
		}
		writes := len(w.writes)
		w.deliver(resJobs, 1)
		w.deliver(seen, 1)
		if err := w.reconcile(); err != nil || len(w.writes) != writes {
			t.Errorf("when %s are seen first: %v, %v", seen, w.writes[writes:], err)
		}
	}
}

// L08, L09, L11, B24: looking again costs nothing, whatever state a job is in.
func TestLookingAgainWritesNothing(t *testing.T) {
	for name, job := range map[string]*kubeflowv1.TFJob{
		"L09 L11 a gang that waits": gangJob(kubeflowv1.CleanPodPolicyNone),
		"L08 a suspended job":       makeJob(replicas(worker, 2), suspended),
		"an impossible job":         makeJob(replicas("Launcher", 2)),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.put(resJobs, job)
			for range 3 {
				w.deliverAll()
				if err := w.reconcile(); err != nil {
					t.Fatal(err)
				}
			}
			writes, events := len(w.writes), len(w.events.lines)
			for range 10 {
				w.deliverAll()
				if err := w.reconcile(); err != nil {
					t.Fatal(err)
				}
			}
			if len(w.writes) != writes || len(w.events.lines) != events {
				t.Errorf("writes %v, events %v", w.writes[writes:], w.events.lines[events:])
			}
		})
	}
}

// A namespace's quota is used up: few requests, one retry at a time, and when there is room the job goes on.
func TestAQuotaIsNotFlooded(t *testing.T) {
	w := newWorld(t)
	w.put(resJobs, makeJob(replicas(worker, 100)))
	asked := 0
	kube := w.clients.Kube.(interface {
		PrependReactor(verb, resource string, reaction clienttesting.ReactionFunc)
	})
	room := false
	kube.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		if room {
			return false, nil, nil
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		asked++
		return true, nil, apierrors.NewForbidden(corev1.Resource("pods"), "", errTaken)
	})
	for range 3 {
		w.deliverAll()
		if err := w.reconcile(); err == nil {
			t.Fatal("no error")
		}
	}
	if asked != 3 {
		t.Errorf("%d requests in 3 tries", asked)
	}
	room = true
	w.deliverAll()
	if err := w.reconcile(); err != nil || len(w.podNames()) != 100 {
		t.Errorf("%d pods, %v", len(w.podNames()), err)
	}
}

// L19: the first thing that is written of a job is that it was created, by whatever pass comes first.
func TestL19CreatedIsTheFirstCondition(t *testing.T) {
	for name, job := range map[string]*kubeflowv1.TFJob{
		"an ordinary job":   makeJob(replicas(worker, 1)),
		"a suspended one":   makeJob(replicas(worker, 1), suspended),
		"an impossible one": makeJob(),
	} {
		p := decide(makeView(t, job), testOptions, testTime)
		if got := describe(p.status); got[0] != "Created" {
			t.Errorf("%s: %v", name, got)
		}
	}
}
