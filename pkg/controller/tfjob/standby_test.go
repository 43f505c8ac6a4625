// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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

// Nobody takes anything out of the queue of a controller that stands by, so no news puts anything into it, at once or later.
func TestOneThatStandsByQueuesNothing(t *testing.T) {
	job := makeJob(replicas(worker, 1))
	pod := makePod("worker", 0, running, labelled(nil), controlledBy("j", "TFJob"))
	ended := pod.DeepCopy()
	ended.ResourceVersion, ended.Status.Phase = "2", corev1.PodSucceeded
	news := map[string]func(*Controller){
		"a job is new":          func(c *Controller) { c.jobChanged(nil, job) },
		"a job has changed":     func(c *Controller) { c.jobChanged(job, makeJob(replicas(worker, 2))) },
		"a pod is new":          func(c *Controller) { c.objectChanged(kindPod, nil, pod) },
		"a pod has changed":     func(c *Controller) { c.objectChanged(kindPod, pod, ended) },
		"a pod is gone":         func(c *Controller) { c.objectGone(kindPod, pod) },
		"a service is gone":     func(c *Controller) { c.objectGone(kindService, &corev1.Service{ObjectMeta: pod.ObjectMeta}) },
		"an orphan has come up": func(c *Controller) { c.objectChanged(kindPod, nil, makePod("worker", 1, running, labelled(nil))) },
	}
	last := types.NamespacedName{Name: "last"}
	for what, happens := range news {
		for leading, want := range map[bool]types.NamespacedName{false: last, true: {Namespace: "n", Name: "j"}} {
			c := newWorld(t).controller
			c.leading.Store(leading)
			happens(c)
			c.queue.AddAfter(last, 2*settle) // what was put in for later comes out before it
			if first, _ := c.queue.Get(); first != want {
				t.Errorf("%s, leading %v: %v comes out of the queue, want %v", what, leading, first, want)
			}
			c.queue.ShutDown()
		}
	}
}

// Run begins with all jobs as they are by then: those that were there, those that have come or changed while it stood by, and, whatever
// moment that is, those that come while it begins.
func TestRunBeginsWithWhatThereIs(t *testing.T) {
	featurestesting.SetFeatureDuringTest(t, features.WatchListClient, false) // the fakes do not stream their first list
	ctx, cancel := context.WithCancel(t.Context())
	clients := Clients{Kube: kubefake.NewClientset(), TFJobs: tfjobfake.NewSimpleClientset(), PodGroups: podgroupfake.NewSimpleClientset()}
	c, err := New(clients, testOptions, &record.FakeRecorder{}, func() time.Time { return testTime })
	if err != nil {
		t.Fatal(err)
	}
	jobs, pods := clients.TFJobs.KubeflowV1().TFJobs("n"), clients.Kube.CoreV1().Pods("n")
	create := func(name string) {
		job := makeJob(replicas(worker, 1))
		job.Name, job.UID = name, types.UID(name)
		if _, err := jobs.Create(ctx, job, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
	}
	eventually := func(what string, is func() bool) {
		t.Helper()
		err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) { return is(), nil })
		if err != nil {
			t.Fatalf("waiting until %s: %v", what, err)
		}
	}
	create("old")
	create("changes")
	create("goes")
	c.Start(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), c.HasSynced) {
		t.Fatal("the caches are not filled")
	}
	create("new")
	changed := makeJob(replicas(worker, 3))
	changed.Name, changed.UID, changed.ResourceVersion = "changes", "changes", "2"
	if _, err := jobs.Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := jobs.Delete(ctx, "goes", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually("the cache has seen it", func() bool {
		_, created := c.jobs.TFJobs("n").Get("new")
		job, err := c.jobs.TFJobs("n").Get("changes")
		_, gone := c.jobs.TFJobs("n").Get("goes")
		return created == nil && err == nil && *job.Spec.TFReplicaSpecs[kubeflowv1.TFJobReplicaTypeWorker].Replicas == 3 && gone != nil
	})
	if n := c.queue.Len(); n > 0 {
		t.Errorf("%d jobs are in the queue of one that stands by", n)
	}
	const late = 20
	created := make(chan struct{})
	go func() {
		for i := range late {
			create(fmt.Sprint("late-", i))
		}
		close(created)
	}()
	ended := make(chan struct{})
	go func() {
		c.Run(ctx, 2)
		close(ended)
	}()
	<-created
	eventually("every job has its pods", func() bool {
		list, err := pods.List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) == 1+3+1+late
	})
	cancel()
	<-ended
}
