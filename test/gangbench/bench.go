// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
	podgroups "sigs.k8s.io/scheduler-plugins/pkg/generated/clientset/versioned"

	"github.com/tutti-project/tutti/test/bench"
	"github.com/tutti-project/tutti/test/controlplane"
)

const (
	createsInFlight = 32
	limit           = 5 * time.Minute
)

// names of the contenders, in the order of their turns.
var names = []string{"tutti", "upstream", "bind-16", "bind-32", "bind-64"}

type stage struct {
	plane  *controlplane.ControlPlane
	client kubernetes.Interface
	groups podgroups.Interface
	pods   int
}

func (s *stage) contenders() []bench.Contender[bench.Took] {
	list := []bench.Contender[bench.Took]{{Name: "tutti", Run: s.tutti}, {Name: "upstream", Run: s.upstream}}
	for _, inFlight := range []int{16, 32, 64} {
		list = append(list, bench.Contender[bench.Took]{Name: fmt.Sprintf("bind-%d", inFlight), Run: func(ctx context.Context, namespace string) (bench.Took, error) {
			return s.bindOnly(ctx, namespace, inFlight)
		}})
	}
	return list
}

func start(ctx context.Context, o options) (*stage, error) {
	fmt.Printf("starting a control plane with %d nodes in %d racks\n", o.racks*50, o.racks)
	plane, err := controlplane.Start(ctx, controlplane.Options{Dir: o.dir, APIServerArgs: []string{
		"--feature-gates=GenericWorkload=true",
		"--runtime-config=scheduling.k8s.io/v1beta1=true",
	}})
	if err != nil {
		return nil, err
	}
	s := &stage{plane: plane, pods: o.pods}
	if err := s.prepare(ctx, o); err != nil {
		plane.Stop()
		return nil, err
	}
	return s, nil
}

func (s *stage) prepare(ctx context.Context, o options) error {
	config := rest.CopyConfig(s.plane.Config)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	var err error
	if s.client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if s.groups, err = podgroups.NewForConfig(s.plane.Config); err != nil {
		return err
	}
	if err := s.plane.Install(ctx); err != nil {
		return err
	}
	return s.plane.CreateNodes(ctx, controlplane.Machines{Spines: 1, RacksPerSpine: o.racks, NodesPerRack: 50, GPUsPerNode: 8})
}

// tutti: pods bear the pod-group label, the CRD's PodGroup completes them.
func (s *stage) tutti(ctx context.Context, namespace string) (bench.Took, error) {
	scheduler, err := s.plane.StartScheduler("--leader-elect=false", "--v=0")
	if err != nil {
		return 0, err
	}
	defer scheduler.Stop()
	return s.gang(ctx, namespace, func(pod *v1.Pod) {
		pod.Spec.SchedulerName = "tutti-scheduler"
		pod.Labels = map[string]string{v1alpha1.PodGroupLabel: "gang"}
	}, func(ctx context.Context) error {
		group := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "gang"}, Spec: v1alpha1.PodGroupSpec{MinMember: int32(s.pods)}}
		_, err := s.groups.SchedulingV1alpha1().PodGroups(namespace).Create(ctx, group, metav1.CreateOptions{})
		return err
	})
}

// upstream: pods name their scheduling group, the native PodGroup completes
// them. Its client may send as much as Tutti's.
func (s *stage) upstream(ctx context.Context, namespace string) (bench.Took, error) {
	scheduler, err := s.plane.StartKubeScheduler("--feature-gates=GenericWorkload=true", "--kube-api-qps=1000", "--kube-api-burst=2000")
	if err != nil {
		return 0, err
	}
	defer scheduler.Stop()
	group := "gang"
	return s.gang(ctx, namespace, func(pod *v1.Pod) {
		pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
	}, func(ctx context.Context) error {
		object := &schedulingv1beta1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Name: group},
			Spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
				Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(s.pods)},
			}},
		}
		_, err := s.client.SchedulingV1beta1().PodGroups(namespace).Create(ctx, object, metav1.CreateOptions{})
		return err
	})
}

// bindOnly binds each pod to a node of its own, deciding nothing.
func (s *stage) bindOnly(ctx context.Context, namespace string, inFlight int) (bench.Took, error) {
	return s.gang(ctx, namespace, func(pod *v1.Pod) { pod.Spec.SchedulerName = "nobody" }, func(ctx context.Context) error {
		return s.each(ctx, inFlight, func(ctx context.Context, i int) error {
			binding := &v1.Binding{
				ObjectMeta: metav1.ObjectMeta{Name: podName(i), Namespace: namespace},
				Target:     v1.ObjectReference{Kind: "Node", Name: fmt.Sprintf("n%03d", i+1)},
			}
			return s.client.CoreV1().Pods(namespace).Bind(ctx, binding, metav1.CreateOptions{})
		})
	})
}

// gang makes the pods, then measures from the beginning of complete to the
// last pod bound, and takes all away again.
func (s *stage) gang(ctx context.Context, namespace string, shape func(*v1.Pod), complete func(context.Context) error) (bench.Took, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if _, err := s.client.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		return 0, err
	}
	defer s.remove(namespace)
	if err := s.plane.Eventually(ctx, limit, func(ctx context.Context) error {
		_, err := s.client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	}); err != nil {
		return 0, err
	}
	if err := s.each(ctx, createsInFlight, func(ctx context.Context, i int) error {
		pod := podOf(i)
		shape(pod)
		_, err := s.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	}); err != nil {
		return 0, fmt.Errorf("creating pods: %w", err)
	}
	bound, err := s.watchBound(ctx, namespace)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	done := make(chan error, 1)
	go func() { done <- complete(ctx) }()
	select {
	case <-bound:
	case <-ctx.Done():
		return 0, errors.Join(fmt.Errorf("not all pods bound: %w", ctx.Err()), s.plane.Failure())
	}
	took := bench.Took(time.Since(begin))
	return took, <-done
}

// watchBound returns a channel that is closed when all pods are bound.
func (s *stage) watchBound(ctx context.Context, namespace string) (<-chan struct{}, error) {
	done := make(chan struct{})
	bound := map[string]bool{}
	informer := informers.NewSharedInformerFactoryWithOptions(s.client, 0, informers.WithNamespace(namespace)).Core().V1().Pods().Informer()
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, object any) {
		pod := object.(*v1.Pod)
		if pod.Spec.NodeName == "" || bound[pod.Name] {
			return
		}
		bound[pod.Name] = true
		if len(bound) == s.pods {
			close(done)
		}
	}})
	if err != nil {
		return nil, err
	}
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return nil, ctx.Err()
	}
	return done, nil
}

// remove frees the nodes at once and waits until that is so, also when the
// turn was interrupted: the next one must find the cluster empty.
func (s *stage) remove(namespace string) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	pods := s.client.CoreV1().Pods(namespace)
	if err := pods.DeleteCollection(ctx, *metav1.NewDeleteOptions(0), metav1.ListOptions{}); err != nil {
		fmt.Println("removing pods:", err)
	}
	if err := s.plane.Eventually(ctx, limit, func(ctx context.Context) error {
		list, err := pods.List(ctx, metav1.ListOptions{Limit: 1})
		if err == nil && len(list.Items) > 0 {
			err = errors.New("pods are left")
		}
		return err
	}); err != nil {
		fmt.Println("removing pods:", err)
	}
	if err := s.client.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}); err != nil {
		fmt.Println("removing namespace:", err)
	}
}

func (s *stage) each(ctx context.Context, inFlight int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(inFlight)
	for i := range s.pods {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

func podName(i int) string { return fmt.Sprintf("gang-%d", i) }

func podOf(i int) *v1.Pod {
	resources := v1.ResourceList{
		v1.ResourceCPU:   resource.MustParse("8"),
		controlplane.GPU: resource.MustParse("8"),
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: podName(i)},
		Spec: v1.PodSpec{Containers: []v1.Container{{
			Name: "tensorflow", Image: "tensorflow/tensorflow",
			Resources: v1.ResourceRequirements{Requests: resources, Limits: resources},
		}}},
	}
}
