// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	"github.com/tutti-project/tutti/test/faultproxy"
)

const finishedNamespace = "finished"

// resync is how many requests to change something a controller sends that finds
// so many finished jobs. A new controller looks at every one of them.
func (s *stage) resync(ctx context.Context, jobs int) (writes int, err error) {
	fmt.Printf("making %d finished jobs\n", jobs)
	if err := s.finishedJobs(ctx, jobs); err != nil {
		return 0, err
	}
	// The jobs are as training-operator leaves them, without the state that
	// Tutti's status has besides: that is written once.
	first, err := s.look(ctx, jobs)
	if err != nil {
		return 0, err
	}
	writes, err = s.look(ctx, jobs)
	fmt.Printf("wrote %d times when they were taken over, %d times after a restart\n", first, writes)
	return writes, err
}

// look starts a controller, lets it look at all the jobs and counts what it writes.
func (s *stage) look(ctx context.Context, jobs int) (writes int, err error) {
	proxy, err := faultproxy.New(s.plane.Config, nil)
	if err != nil {
		return 0, err
	}
	defer proxy.Close()
	kubeconfig, err := filepath.Abs(filepath.Join(s.dir, "proxy.kubeconfig"))
	if err != nil {
		return 0, err
	}
	if err := proxy.Kubeconfig(kubeconfig); err != nil {
		return 0, err
	}
	address, err := freeAddress()
	if err != nil {
		return 0, err
	}
	process, err := s.start("--kubeconfig="+kubeconfig, "--namespace="+finishedNamespace, "--metrics-bind-address="+address, "--metrics-secure=false")
	if err != nil {
		return 0, err
	}
	defer process.Stop()
	began := time.Now()
	err = s.plane.Eventually(ctx, limit, func(context.Context) error { return hasSeen("http://"+address+"/metrics", jobs) })
	if err != nil {
		return 0, err
	}
	fmt.Printf("looked at %d finished jobs in %.1f s, sent %v\n", jobs, time.Since(began).Seconds(), proxy.Writes())
	for _, n := range proxy.Writes() {
		writes += n
	}
	return writes, nil
}

func (s *stage) finishedJobs(ctx context.Context, n int) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: finishedNamespace}}
	if _, err := s.client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return err
	}
	jobs := s.jobs.KubeflowV1().TFJobs(finishedNamespace)
	group, working := errgroup.WithContext(ctx)
	group.SetLimit(inFlight)
	for i := range n {
		group.Go(func() error {
			job, err := jobs.Create(working, newJob(fmt.Sprintf("job-%d", i), 2, nil), metav1.CreateOptions{})
			if err != nil {
				return err
			}
			job.Status = succeeded()
			_, err = jobs.UpdateStatus(working, job, metav1.UpdateOptions{})
			return err
		})
	}
	return group.Wait()
}

// succeeded is as training-operator leaves a job behind.
func succeeded() kubeflowv1.JobStatus {
	now := metav1.Now()
	c := func(t kubeflowv1.JobConditionType, status corev1.ConditionStatus) kubeflowv1.JobCondition {
		return kubeflowv1.JobCondition{Type: t, Status: status, Reason: "TFJob" + string(t), LastUpdateTime: now, LastTransitionTime: now}
	}
	return kubeflowv1.JobStatus{
		Conditions: []kubeflowv1.JobCondition{
			c(kubeflowv1.JobCreated, corev1.ConditionTrue), c(kubeflowv1.JobRunning, corev1.ConditionFalse), c(kubeflowv1.JobSucceeded, corev1.ConditionTrue),
		},
		ReplicaStatuses: map[kubeflowv1.ReplicaType]*kubeflowv1.ReplicaStatus{kubeflowv1.TFJobReplicaTypeWorker: {Succeeded: 2}},
		StartTime:       &now,
		CompletionTime:  &now,
	}
}

// hasSeen is nil when the controller's queue has held so many jobs and is empty.
func hasSeen(url string, jobs int) error {
	response, err := http.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	values := map[string]float64{}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if series, value, ok := strings.Cut(lines.Text(), " "); ok && !strings.HasPrefix(series, "#") {
			values[series], _ = strconv.ParseFloat(value, 64) // absent and unreadable are zero
		}
	}
	const queue = `{name="` + kubeflowv1.TFJobControllerName + `"}`
	done, depth := values["workqueue_work_duration_seconds_count"+queue], values["workqueue_depth"+queue]
	if done < float64(jobs) || depth > 0 {
		return fmt.Errorf("%g jobs were looked at and %g wait", done, depth)
	}
	return lines.Err()
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}
