// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
	podgroups "sigs.k8s.io/scheduler-plugins/pkg/generated/clientset/versioned"

	"github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/test/controlplane"
)

const (
	inFlight = 32
	limit    = 10 * time.Minute
	// size is how many pods each gang has, whether it fits or not.
	size = 4
)

type scene struct {
	plane  *controlplane.ControlPlane
	client kubernetes.Interface
	groups podgroups.Interface
	gangs  int
}

func start(ctx context.Context, o options) (*scene, error) {
	fmt.Printf("starting a control plane with %d nodes in %d racks\n", o.racks*50, o.racks)
	plane, err := controlplane.Start(ctx, controlplane.Options{Dir: o.dir})
	if err != nil {
		return nil, err
	}
	s := &scene{plane: plane, gangs: o.gangs}
	config := rest.CopyConfig(plane.Config)
	config.ContentType, config.AcceptContentTypes = "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json"
	s.client, err = kubernetes.NewForConfig(config)
	if err == nil {
		s.groups, err = podgroups.NewForConfig(plane.Config)
	}
	if err == nil {
		err = plane.CreateNodes(ctx, controlplane.Machines{Spines: 1, RacksPerSpine: o.racks, NodesPerRack: 50, GPUsPerNode: 8})
	}
	if err == nil {
		err = plane.Settle(ctx)
	}
	if err != nil {
		plane.Stop()
		return nil, err
	}
	return s, nil
}

// turn measures one contender and takes all away again.
func (s *scene) turn(ctx context.Context, label string, pending int, woken bool) (r result, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := s.namespace(ctx, label); err != nil {
		return r, err
	}
	defer s.remove(label)
	if err := s.create(ctx, label, "pending", pending, tooBig); err != nil {
		return r, fmt.Errorf("creating gangs that do not fit: %w", err)
	}
	if err := s.complete(ctx, label, "pending", pending); err != nil {
		return r, err
	}
	if err := s.create(ctx, label, "fits", s.gangs, fits); err != nil {
		return r, fmt.Errorf("creating gangs that fit: %w", err)
	}
	scheduler, err := s.plane.StartScheduler("--leader-elect=false", "--v=0")
	if err != nil {
		return r, err
	}
	defer scheduler.Stop()
	if err := s.settled(ctx, label, pending); err != nil {
		return r, err
	}
	if err := calm(ctx, scheduler.PID()); err != nil {
		return r, err
	}
	if woken {
		defer s.disturb(ctx)()
	}
	bound, err := s.watchBound(ctx, label)
	if err != nil {
		return r, err
	}
	begin, before := time.Now(), cpuOf(scheduler.PID())
	if err := s.complete(ctx, label, "fits", s.gangs); err != nil {
		return r, err
	}
	select {
	case <-bound:
		return result{wall: time.Since(begin), cpu: cpuOf(scheduler.PID()) - before}, nil
	case <-ctx.Done():
		return r, errors.Join(fmt.Errorf("not all pods bound: %w", ctx.Err()), s.plane.Failure())
	}
}

// result is what one turn took, and what CPU time the scheduler used meanwhile:
// on a machine that does other things as well, that tells more.
type result struct{ wall, cpu time.Duration }

// String implements fmt.Stringer.
func (r result) String() string {
	return fmt.Sprintf("%6.2f s, %5.2f s of CPU", r.wall.Seconds(), r.cpu.Seconds())
}

// cpuOf is the CPU time that a running process has used: the 14th and 15th field
// of its stat file, in hundredths of a second (proc(5)). Zero where that is not.
func cpuOf(pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(stat, []byte(") ")) // after the name, which may have spaces: the third field
	fields := bytes.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	ticks := 0
	for _, field := range fields[11:13] {
		n, _ := strconv.Atoi(string(field))
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// calm waits until the process does no less than a moment before: what it still writes
// about the gangs that it has refused is not what they cost the others.
func calm(ctx context.Context, pid int) error {
	const moment = 2 * time.Second
	last := time.Duration(math.MaxInt64)
	for before := cpuOf(pid); ; {
		select {
		case <-time.After(moment):
		case <-ctx.Done():
			return fmt.Errorf("the scheduler has not come to rest: %w", context.Cause(ctx))
		}
		used := cpuOf(pid) - before
		if used < moment/100 || used >= last/5*4 {
			return nil
		}
		last, before = used, before+used
	}
}

// fits is a pod of a gang that fits, tooBig one of the i-th that does not: no two
// of those ask the same, so that each must be planned by itself.
func fits(int) v1.ResourceList {
	return v1.ResourceList{v1.ResourceCPU: resource.MustParse("1"), controlplane.GPU: resource.MustParse("2")}
}

func tooBig(i int) v1.ResourceList {
	return v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(int64(1000+i), resource.DecimalSI), controlplane.GPU: resource.MustParse("9")}
}

// create makes the pods of gangs, which are not complete before complete.
func (s *scene) create(ctx context.Context, namespace, kind string, gangs int, request func(int) v1.ResourceList) error {
	return each(ctx, gangs*size, func(ctx context.Context, i int) error {
		ask := request(i / size)
		_, err := s.client.CoreV1().Pods(namespace).Create(ctx, &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name:   fmt.Sprintf("%s-%d-%d", kind, i/size, i%size),
				Labels: map[string]string{v1alpha1.PodGroupLabel: fmt.Sprintf("%s-%d", kind, i/size), "kind": kind},
			},
			Spec: v1.PodSpec{SchedulerName: tutti.SchedulerName, Containers: []v1.Container{{
				Name: "tensorflow", Image: "example.com/train:1", Resources: v1.ResourceRequirements{Requests: ask, Limits: ask},
			}}},
		}, metav1.CreateOptions{})
		return err
	})
}

// complete makes the gangs' PodGroups.
func (s *scene) complete(ctx context.Context, namespace, kind string, gangs int) error {
	err := each(ctx, gangs, func(ctx context.Context, i int) error {
		_, err := s.groups.SchedulingV1alpha1().PodGroups(namespace).Create(ctx, &v1alpha1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", kind, i)}, Spec: v1alpha1.PodGroupSpec{MinMember: size},
		}, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("creating PodGroups: %w", err)
	}
	return nil
}

// settled waits until the scheduler is up, shown by an ordinary pod, and all
// gangs that do not fit have been refused and all their pods told.
func (s *scene) settled(ctx context.Context, namespace string, pending int) error {
	probe := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Spec: v1.PodSpec{
		SchedulerName: tutti.SchedulerName, Containers: []v1.Container{{Name: "probe", Image: "example.com/train:1"}},
	}}
	if _, err := s.client.CoreV1().Pods(namespace).Create(ctx, probe, metav1.CreateOptions{}); err != nil {
		return err
	}
	return s.plane.Eventually(ctx, limit, func(ctx context.Context) error {
		time.Sleep(time.Second) // listing thousands of pods is work for the machine that is measured
		up, err := s.client.CoreV1().Pods(namespace).Get(ctx, "probe", metav1.GetOptions{})
		if err != nil || up.Spec.NodeName == "" {
			return errors.Join(err, errors.New("the scheduler is not up"))
		}
		list, err := s.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "kind=pending"})
		if err != nil {
			return err
		}
		told := 0
		for _, pod := range list.Items {
			for _, c := range pod.Status.Conditions {
				if c.Type == v1.PodScheduled && c.Reason == v1.PodReasonUnschedulable {
					told++
				}
			}
		}
		if told != pending*size {
			return fmt.Errorf("%d of %d pods were told that their gangs do not fit", told, pending*size)
		}
		return nil
	})
}

// disturb changes a node's label ten times a second, until it is stopped.
func (s *scene) disturb(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				patch := fmt.Sprintf(`{"metadata":{"labels":{"disturbed":"%d"}}}`, i)
				_, _ = s.client.CoreV1().Nodes().Patch(ctx, "n001", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			}
		}
	}()
	return func() { cancel(); <-done }
}

// watchBound returns a channel that is closed when all pods that fit are bound.
func (s *scene) watchBound(ctx context.Context, namespace string) (<-chan struct{}, error) {
	done, bound := make(chan struct{}), map[string]bool{}
	factory := informers.NewSharedInformerFactoryWithOptions(s.client, 0, informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(list *metav1.ListOptions) { list.LabelSelector = "kind=fits" }))
	informer := factory.Core().V1().Pods().Informer()
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, object any) {
		if pod := object.(*v1.Pod); pod.Spec.NodeName != "" && !bound[pod.Name] {
			if bound[pod.Name] = true; len(bound) == s.gangs*size {
				close(done)
			}
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

func (s *scene) namespace(ctx context.Context, name string) error {
	if _, err := s.client.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	return s.plane.Eventually(ctx, limit, func(ctx context.Context) error {
		_, err := s.client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// remove waits until the cluster is empty, also when the turn was interrupted:
// the next one must find it so.
func (s *scene) remove(namespace string) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	pods, groups := s.client.CoreV1().Pods(namespace), s.groups.SchedulingV1alpha1().PodGroups(namespace)
	err := errors.Join(
		pods.DeleteCollection(ctx, *metav1.NewDeleteOptions(0), metav1.ListOptions{}),
		groups.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
		s.plane.Eventually(ctx, limit, func(ctx context.Context) error {
			list, err := pods.List(ctx, metav1.ListOptions{Limit: 1})
			if err == nil && len(list.Items) > 0 {
				err = errors.New("pods are left")
			}
			return err
		}),
		s.client.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}),
	)
	if err != nil {
		fmt.Println("removing what a turn left:", err)
	}
}

func each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(inFlight)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}
