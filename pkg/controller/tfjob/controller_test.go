// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	podgroupfake "sigs.k8s.io/scheduler-plugins/pkg/generated/clientset/versioned/fake"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	tfjobfake "github.com/tutti-project/tutti/pkg/generated/clientset/versioned/fake"
)

func TestReconcileAheadOfTheCachesAsksForNothingTwice(t *testing.T) {
	w := newWorld(t)
	w.put(resJobs, gangJob(kubeflowv1.CleanPodPolicyNone))
	w.deliver(resJobs, 1)
	if err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	w.deliver(resJobs, 1) // the status
	w.deliver(resPods, 2)
	writes := len(w.writes)
	w.fault = func(action string) fault {
		t.Errorf("asked again: %s", action)
		return refused
	}
	if err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	if len(w.writes) != writes {
		t.Errorf("wrote %v", w.writes[writes:])
	}
	w.deliverAll()
	if open := w.controller.ledger.open(w.job().UID, testTime); len(open) > 0 {
		t.Errorf("still open when everything was seen: %v", open)
	}
}

func TestFinishedAndCleanedJobCostsNoCalls(t *testing.T) {
	w := newWorld(t)
	w.put(resJobs, gangJob(kubeflowv1.CleanPodPolicyAll))
	w.settle()
	writes := len(w.writes)
	kube, jobs := w.clients.Kube.(*kubefake.Clientset), w.clients.TFJobs.(*tfjobfake.Clientset)
	kube.ClearActions()
	jobs.ClearActions()
	for range 3 {
		if err := w.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	if calls := len(kube.Actions()) + len(jobs.Actions()); calls > 0 || len(w.writes) != writes {
		t.Errorf("%d calls, %d writes", calls, len(w.writes)-writes)
	}
}

func TestJobsThatAreLeftAlone(t *testing.T) {
	managedBy := func(by string) jobOption {
		return func(job *kubeflowv1.TFJob) { job.Spec.RunPolicy.ManagedBy = &by }
	}
	for name, tc := range map[string]struct {
		opt        jobOption
		wantWrites bool
	}{
		"managed by Kueue":                   {managedBy(kubeflowv1.ManagedByMultiKueue), false},
		"managed by somebody else":           {managedBy("example.com/other"), false},
		"managed by this kind of controller": {managedBy(kubeflowv1.ManagedByTrainingOperator), true},
		"managed by nobody in particular":    {managedBy(""), true},
		"being deleted":                      {func(job *kubeflowv1.TFJob) { job.DeletionTimestamp = &metav1.Time{Time: testTime} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.put(resJobs, makeJob(replicas(worker, 1), tc.opt))
			w.deliverAll()
			if err := w.reconcile(); err != nil {
				t.Fatal(err)
			}
			if got := len(w.writes) > 0; got != tc.wantWrites {
				t.Errorf("writes: %v", w.writes)
			}
		})
	}
}

func TestNothingIsDoneForAJobThatHasChangedSince(t *testing.T) {
	w := newWorld(t)
	w.put(resJobs, gangJob(kubeflowv1.CleanPodPolicyNone))
	w.deliverAll()
	if err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	w.deliverAll()
	w.remove(resPods, "j-worker-1")
	w.deliverAll()
	w.edit(suspended) // not delivered
	writes := len(w.writes)
	if err := w.reconcile(); !errors.Is(err, errOutOfDate) {
		t.Errorf("got %v, want %v", err, errOutOfDate)
	}
	if len(w.writes) != writes {
		t.Errorf("wrote %v", w.writes[writes:])
	}
}

func TestLedgerForgets(t *testing.T) {
	l := newLedger()
	l.enter("a", creation(kindPod, "p"), testTime)
	l.enter("a", deletion(kindPod, "uid"), testTime.Add(time.Minute))
	l.enter("b", creation(kindPod, "p"), testTime)
	l.strike("b", creation(kindPod, "p"))
	l.strike("c", creation(kindPod, "p"))
	if got := len(l.open("a", testTime)); got != 2 {
		t.Errorf("%d open, want 2", got)
	}
	if diff := cmp.Diff(map[entry]bool{deletion(kindPod, "uid"): true}, l.open("a", testTime.Add(ledgerTerm)), cmp.AllowUnexported(entry{})); diff != "" {
		t.Errorf("after its term (-want +got):\n%s", diff)
	}
	l.close("a")
	if len(l.jobs) != 0 {
		t.Errorf("left over: %v", l.jobs)
	}
}

// The informers and handlers, with the fakes that come with the clients: a job is created, its pods run and succeed.
func TestWithInformers(t *testing.T) {
	// The fakes do not stream their first list.
	featurestesting.SetFeatureDuringTest(t, features.WatchListClient, false)
	ctx, cancel := context.WithCancel(t.Context())
	clients := Clients{Kube: kubefake.NewClientset(), TFJobs: tfjobfake.NewSimpleClientset(), PodGroups: podgroupfake.NewSimpleClientset()}
	recorder := record.NewFakeRecorder(1000)
	c, err := New(clients, testOptions, recorder, func() time.Time { return testTime })
	if err != nil {
		t.Fatal(err)
	}
	c.Start(ctx)
	ended := make(chan struct{})
	go func() {
		c.Run(ctx, 2)
		close(ended)
	}()
	if !cache.WaitForCacheSync(ctx.Done(), c.HasSynced) {
		t.Fatal("the caches are not filled")
	}
	eventually := func(what string, is func() bool) {
		t.Helper()
		err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) { return is(), nil })
		if err != nil {
			t.Fatalf("waiting until %s: %v", what, err)
		}
	}
	state := func() kubeflowv1.JobConditionType {
		job, err := clients.TFJobs.KubeflowV1().TFJobs("n").Get(ctx, "j", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return job.Status.State
	}
	setPhases := func(phase corev1.PodPhase) {
		pods, err := clients.Kube.CoreV1().Pods("n").List(ctx, metav1.ListOptions{})
		if err != nil || len(pods.Items) != 3 {
			t.Fatalf("%d pods, error %v", len(pods.Items), err)
		}
		for i := range pods.Items {
			pods.Items[i].Status.Phase = phase
			pods.Items[i].ResourceVersion = string(phase)
			if _, err := clients.Kube.CoreV1().Pods("n").Update(ctx, &pods.Items[i], metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := clients.TFJobs.KubeflowV1().TFJobs("n").Create(ctx, makeJob(replicas(ps, 1), replicas(worker, 2)), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pods := func() int {
		list, err := clients.Kube.CoreV1().Pods("n").List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return len(list.Items)
	}
	eventually("all pods exist", func() bool { return pods() == 3 })
	setPhases(corev1.PodRunning)
	eventually("the job runs", func() bool { return state() == kubeflowv1.JobRunning })
	setPhases(corev1.PodSucceeded)
	eventually("the job has succeeded", func() bool { return state() == kubeflowv1.JobSucceeded })
	eventually("the group is gone", func() bool {
		list, err := clients.PodGroups.SchedulingV1alpha1().PodGroups("n").List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) == 0
	})
	cancel()
	<-ended
	close(recorder.Events)
	var sent []string
	for line := range recorder.Events {
		sent = append(sent, strings.Join(strings.Fields(line)[:2], " "))
	}
	want := []string{"Normal SuccessfulCreatePodGroup", "Normal SuccessfulCreateService", "Normal SuccessfulCreatePod", "Normal TFJobSucceeded", "Normal SuccessfulDeletePodGroup"}
	if diff := cmp.Diff(want, slices.Compact(sent)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
