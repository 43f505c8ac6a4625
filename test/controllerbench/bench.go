// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	tuttiapi "github.com/tutti-project/tutti/pkg/apis/tutti"
	tutti "github.com/tutti-project/tutti/pkg/generated/clientset/versioned"
	"github.com/tutti-project/tutti/test/bench"
	"github.com/tutti-project/tutti/test/controlplane"
)

const (
	// inFlight is how many requests of one job the controller has under way at
	// most.
	inFlight = 16
	limit    = 3 * time.Minute
	jobName  = "train"
)

type stage struct {
	options
	plane  *controlplane.ControlPlane
	client kubernetes.Interface // not throttled
	jobs   tutti.Interface
	// pods are those of the last job, for the loop to create again.
	pods []corev1.Pod
	// services are those of the last job with one per pod.
	services []corev1.Service
}

// seconds from a job's creation to its last pod, medians over the turns.
type seconds struct{ perJob, createOnly, perReplica, createBoth float64 }

// compare lets the contenders take turns at qps requests a second.
func (s *stage) compare(ctx context.Context, name string, qps float64) (seconds, error) {
	s.qps = qps
	times, err := bench.Turns(ctx, s.turns, s.contenders(name+"-"))
	median := func(contender string) float64 {
		return bench.Median(times[name+"-"+contender], bench.Took.Seconds)
	}
	return seconds{median("per-job"), median("createonly"), median("per-replica"), median("createboth")}, err
}

// contenders in the order of their turns; a loop needs the objects of the one before.
func (s *stage) contenders(prefix string) []bench.Contender[bench.Took] {
	return []bench.Contender[bench.Took]{
		{Name: prefix + "per-job", Run: func(ctx context.Context, namespace string) (bench.Took, error) {
			return s.controller(ctx, namespace, map[string]string{tuttiapi.ServicesAnnotation: "per-job"})
		}},
		{Name: prefix + "createonly", Run: func(ctx context.Context, namespace string) (bench.Took, error) {
			return s.createOnly(ctx, namespace, nil)
		}},
		{Name: prefix + "per-replica", Run: func(ctx context.Context, namespace string) (bench.Took, error) {
			return s.controller(ctx, namespace, nil)
		}},
		{Name: prefix + "createboth", Run: s.createBoth},
	}
}

func newStage(plane *controlplane.ControlPlane, o options) (*stage, error) {
	s := &stage{options: o, plane: plane}
	var err error
	if s.client, err = kubernetes.NewForConfig(protobuf(plane.Config)); err != nil {
		return nil, err
	}
	s.jobs, err = tutti.NewForConfig(plane.Config)
	return s, err
}

func protobuf(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return config
}

func (s *stage) start(args ...string) (*controlplane.Process, error) {
	return s.plane.StartController(append([]string{
		"--leader-elect=false", "--v=0", fmt.Sprintf("--kube-api-qps=%g", s.qps), fmt.Sprintf("--kube-api-burst=%g", 2*s.qps),
	}, args...)...)
}

// controller is the time from the job's creation to its last pod. A small job
// before it shows that the controller is at work.
func (s *stage) controller(ctx context.Context, namespace string, annotations map[string]string) (bench.Took, error) {
	process, err := s.start()
	if err != nil {
		return 0, err
	}
	defer process.Stop()
	pods, err := s.namespace(ctx, namespace)
	if err != nil {
		return 0, err
	}
	if _, err := s.jobs.KubeflowV1().TFJobs(namespace).Create(ctx, newJob("first", 1, nil), metav1.CreateOptions{}); err != nil {
		return 0, err
	}
	if err := s.until(ctx, pods, 1); err != nil {
		return 0, err
	}
	began := time.Now()
	if _, err := s.jobs.KubeflowV1().TFJobs(namespace).Create(ctx, newJob(jobName, s.workers, annotations), metav1.CreateOptions{}); err != nil {
		return 0, err
	}
	if err := s.until(ctx, pods, 1+s.workers); err != nil {
		return 0, err
	}
	took := bench.Took(time.Since(began))
	return took, s.remember(ctx, namespace, metav1.ListOptions{LabelSelector: kubeflowv1.JobNameLabel + "=" + jobName})
}

// remember keeps pods and services for the loop to create again.
func (s *stage) remember(ctx context.Context, namespace string, of metav1.ListOptions) error {
	pods, err := s.client.CoreV1().Pods(namespace).List(ctx, of)
	if err != nil {
		return err
	}
	services, err := s.client.CoreV1().Services(namespace).List(ctx, of)
	if err != nil {
		return err
	}
	s.pods, s.services = pods.Items, services.Items
	return nil
}

// createBoth creates the services of the last job and then its pods, as the
// controller has to, and nothing else.
func (s *stage) createBoth(ctx context.Context, namespace string) (bench.Took, error) {
	return s.createOnly(ctx, namespace, s.services)
}

// createOnly creates the pods of the last job again, after these services, and
// nothing else.
func (s *stage) createOnly(ctx context.Context, namespace string, services []corev1.Service) (bench.Took, error) {
	pods, err := s.namespace(ctx, namespace)
	if err != nil {
		return 0, err
	}
	config := protobuf(s.plane.Config)
	config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(float32(s.qps), int(2*s.qps))
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	first, making := errgroup.WithContext(ctx)
	first.SetLimit(inFlight)
	for i := range services {
		service := services[i].DeepCopy()
		service.ObjectMeta = metav1.ObjectMeta{Name: service.Name, Labels: service.Labels}
		first.Go(func() error {
			_, err := client.CoreV1().Services(namespace).Create(making, service, metav1.CreateOptions{})
			return err
		})
	}
	if err := first.Wait(); err != nil {
		return 0, err
	}
	group, working := errgroup.WithContext(ctx)
	group.SetLimit(inFlight)
	for i := range s.pods {
		pod := s.pods[i].DeepCopy()
		// Without the owner, who is not in this namespace.
		pod.ObjectMeta = metav1.ObjectMeta{Name: pod.Name, Labels: pod.Labels, Annotations: pod.Annotations}
		pod.Status = corev1.PodStatus{}
		group.Go(func() error {
			_, err := client.CoreV1().Pods(namespace).Create(working, pod, metav1.CreateOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	if err := s.until(ctx, pods, len(s.pods)); err != nil {
		return 0, err
	}
	return bench.Took(time.Since(began)), nil
}

// namespace makes one and counts the pods that are created in it.
func (s *stage) namespace(ctx context.Context, name string) (*atomic.Int64, error) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := s.client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	err := s.plane.Eventually(ctx, limit, func(ctx context.Context) error {
		_, err := s.client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	if err != nil {
		return nil, err
	}
	created := &atomic.Int64{}
	factory := informers.NewSharedInformerFactoryWithOptions(s.client, 0, informers.WithNamespace(name))
	_, err = factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) { created.Add(1) }})
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return created, err
}

func (s *stage) until(ctx context.Context, pods *atomic.Int64, want int) error {
	over := time.After(limit)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for pods.Load() < int64(want) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-over:
			return fmt.Errorf("%d of %d pods after %s", pods.Load(), want, limit)
		case <-tick.C:
			if err := s.plane.Failure(); err != nil {
				return err
			}
		}
	}
	return nil
}

func newJob(name string, workers int, annotations map[string]string) *kubeflowv1.TFJob {
	return &kubeflowv1.TFJob{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Spec: kubeflowv1.TFJobSpec{TFReplicaSpecs: map[kubeflowv1.ReplicaType]*kubeflowv1.ReplicaSpec{
			kubeflowv1.TFJobReplicaTypeWorker: {
				Replicas: new(int32(workers)),
				Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
					Containers: []corev1.Container{{Name: "tensorflow", Image: "example.com/train:1"}},
				}},
			},
		}},
	}
}
