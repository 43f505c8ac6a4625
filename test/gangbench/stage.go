// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	podgroups "sigs.k8s.io/scheduler-plugins/pkg/generated/clientset/versioned"

	"github.com/tutti-project/tutti/test/controlplane"
)

const (
	createsInFlight = 32
	nodesPerRack    = 50
	gpusPerNode     = 8
	// highClass is the priority of gangs that evict others.
	highClass = "bench-high"
	highValue = 1000
)

// stage is the cluster that contenders take their turns on.
type stage struct {
	plane  *controlplane.ControlPlane
	client kubernetes.Interface
	groups podgroups.Interface
	nodes  int
}

func start(ctx context.Context, o options) (*stage, error) {
	fmt.Printf("starting a control plane with %d nodes in %d racks\n", o.racks*nodesPerRack, o.racks)
	plane, err := controlplane.Start(ctx, controlplane.Options{Dir: o.dir, APIServerArgs: []string{
		"--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true",
		"--runtime-config=scheduling.k8s.io/v1beta1=true",
	}})
	if err != nil {
		return nil, err
	}
	s := &stage{plane: plane, nodes: o.racks * nodesPerRack}
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
	_, err = s.client.SchedulingV1().PriorityClasses().Create(ctx, &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: highClass}, Value: highValue,
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err := s.plane.CreateNodes(ctx, controlplane.Machines{Spines: 1, RacksPerSpine: o.racks, NodesPerRack: nodesPerRack, GPUsPerNode: gpusPerNode}); err != nil {
		return err
	}
	return s.plane.Settle(ctx)
}

func (s *stage) createNamespace(ctx context.Context, namespace string) error {
	if _, err := s.client.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	return s.plane.Eventually(ctx, limit, func(ctx context.Context) error {
		_, err := s.client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// gang names the i-th gang of a set, and pod its j-th pod.
func gang(set string, i int) string       { return fmt.Sprintf("%s-%d", set, i) }
func pod(set string, i, j int) string     { return fmt.Sprintf("%s-%d-%d", set, i, j) }
func (s *stage) node(i int) string        { return fmt.Sprintf("n%03d", i%s.nodes+1) }
func priorityOf(high bool) (class string) { return map[bool]string{true: highClass, false: ""}[high] }

// createPods makes the pods of all gangs of a set, a whole node each.
func (s *stage) createPods(ctx context.Context, namespace, set string, l load, d dialect, high bool) error {
	err := each(ctx, createsInFlight, l.total(), func(ctx context.Context, i int) error {
		p := podOf(pod(set, i/l.pods, i%l.pods))
		p.Spec.PriorityClassName = priorityOf(high)
		d.shape(p, gang(set, i/l.pods), l)
		_, err := s.client.CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("creating pods: %w", err)
	}
	return nil
}

func (s *stage) createGroups(ctx context.Context, namespace, set string, l load, d dialect, high bool) error {
	err := each(ctx, createsInFlight, l.gangs, func(ctx context.Context, i int) error { return d.group(ctx, namespace, gang(set, i), l, high) })
	if err != nil {
		return fmt.Errorf("creating pod groups: %w", err)
	}
	return nil
}

// bindAll binds the i-th pod of a set to the i-th node.
func (s *stage) bindAll(ctx context.Context, namespace, set string, l load, inFlight int) error {
	err := each(ctx, inFlight, l.total(), func(ctx context.Context, i int) error {
		return s.client.CoreV1().Pods(namespace).Bind(ctx, &v1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: pod(set, i/l.pods, i%l.pods), Namespace: namespace},
			Target:     v1.ObjectReference{Kind: "Node", Name: s.node(i)},
		}, metav1.CreateOptions{})
	})
	if err != nil {
		return fmt.Errorf("binding pods: %w", err)
	}
	return nil
}

// remove frees the nodes at once and waits until that is so, also when the turn
// was interrupted: the next one must find the cluster empty.
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

func each(ctx context.Context, inFlight, n int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(inFlight)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

func podOf(name string) *v1.Pod {
	resources := v1.ResourceList{
		v1.ResourceCPU:   resource.MustParse("8"),
		controlplane.GPU: *resource.NewQuantity(gpusPerNode, resource.DecimalSI),
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PodSpec{TerminationGracePeriodSeconds: new(int64(0)), Containers: []v1.Container{{
			Name: "tensorflow", Image: "tensorflow/tensorflow",
			Resources: v1.ResourceRequirements{Requests: resources, Limits: resources},
		}}},
	}
}
