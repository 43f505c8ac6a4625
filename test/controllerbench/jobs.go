// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

const (
	podsPerJob = 10
	threads    = 8
)

// manyJobs creates jobs all at once. wait is the 99th percentile of the time from
// a job's creation to its first pod; loop is how long a loop takes that only
// creates the same services and pods.
func (s *stage) manyJobs(ctx context.Context, jobs int) (wait, loop time.Duration, err error) {
	waits, err := s.firstPods(ctx, "many", jobs)
	if err != nil {
		return 0, 0, err
	}
	slices.Sort(waits)
	percentile := func(p int) time.Duration { return waits[(len(waits)-1)*p/100] }
	fmt.Printf("%d jobs of %d, %d threads: first pod after %.2f s (median), %.2f s (p99)\n",
		jobs, podsPerJob, threads, percentile(50).Seconds(), percentile(99).Seconds())
	if err := s.remember(ctx, "many", metav1.ListOptions{LabelSelector: kubeflowv1.OperatorNameLabel}); err != nil {
		return 0, 0, err
	}
	took, err := s.createBoth(ctx, "many-loop")
	loop = time.Duration(took)
	fmt.Printf("a loop that only creates the same services and pods: %.2f s\n", loop.Seconds())
	return percentile(99), loop, err
}

// firstPods is how long each of the jobs waited for its first pod; it returns when
// all pods of all jobs exist.
func (s *stage) firstPods(ctx context.Context, namespace string, jobs int) ([]time.Duration, error) {
	pods, err := s.namespace(ctx, namespace)
	if err != nil {
		return nil, err
	}
	first := &arrivals{of: map[string]time.Time{}}
	if err := first.watch(ctx, s.client, namespace); err != nil {
		return nil, err
	}
	process, err := s.start("--namespace="+namespace, fmt.Sprintf("--controller-threads=%d", threads))
	if err != nil {
		return nil, err
	}
	defer process.Stop()
	if _, err := s.jobs.KubeflowV1().TFJobs(namespace).Create(ctx, newJob("first", 1, nil), metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	if err := s.until(ctx, pods, 1); err != nil {
		return nil, err
	}
	created := make([]time.Time, jobs)
	group, working := errgroup.WithContext(ctx)
	group.SetLimit(inFlight)
	for i := range jobs {
		group.Go(func() error {
			_, err := s.jobs.KubeflowV1().TFJobs(namespace).Create(working, newJob(fmt.Sprintf("job-%d", i), podsPerJob, nil), metav1.CreateOptions{})
			created[i] = time.Now()
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if err := s.until(ctx, pods, 1+jobs*podsPerJob); err != nil {
		return nil, err
	}
	waits := make([]time.Duration, jobs)
	for i := range jobs {
		waits[i] = max(0, first.at(fmt.Sprintf("job-%d", i)).Sub(created[i]))
	}
	return waits, nil
}

// arrivals are the times at which the first pod of each job was seen.
type arrivals struct {
	mu sync.Mutex
	of map[string]time.Time
}

func (a *arrivals) watch(ctx context.Context, client kubernetes.Interface, namespace string) error {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	_, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
		job := obj.(*corev1.Pod).Labels[kubeflowv1.JobNameLabel]
		a.mu.Lock()
		defer a.mu.Unlock()
		if _, seen := a.of[job]; !seen {
			a.of[job] = time.Now()
		}
	}})
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return err
}

func (a *arrivals) at(job string) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.of[job]
}
