// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Labels of the simulated nodes and the resource that a GPU is.
const (
	SpineLabel = "topology.tutti.dev/spine"
	RackLabel  = "topology.tutti.dev/rack"
	GPU        = corev1.ResourceName("nvidia.com/gpu")
)

const requestsInFlight = 16

// Machines describes a regular cluster. Nodes are n001, n002, …, racks r1,
// r2, … and spines s1, s2, …, each numbered through the whole cluster.
type Machines struct {
	Spines, RacksPerSpine, NodesPerRack, GPUsPerNode int
}

// Small is the cluster of the demo and of most tests:
//
//	s1: r1 r2 r3 r4    s2: r5 r6 r7 r8    8 nodes a rack, 8 GPUs a node
var Small = Machines{Spines: 2, RacksPerSpine: 4, NodesPerRack: 8, GPUsPerNode: 8}

// Nodes is how many nodes there are.
func (m Machines) Nodes() int { return m.Spines * m.RacksPerSpine * m.NodesPerRack }

// Node is the i-th node, counted from 0.
func (m Machines) Node(i int) *corev1.Node {
	rack := i / m.NodesPerRack
	name := fmt.Sprintf("n%03d", i+1)
	resources := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("128"),
		corev1.ResourceMemory: resource.MustParse("1Ti"),
		corev1.ResourcePods:   resource.MustParse("110"),
	}
	if m.GPUsPerNode > 0 {
		resources[GPU] = *resource.NewQuantity(int64(m.GPUsPerNode), resource.DecimalSI)
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				corev1.LabelHostname: name,
				SpineLabel:           fmt.Sprintf("s%d", rack/m.RacksPerSpine+1),
				RackLabel:            fmt.Sprintf("r%d", rack+1),
			},
		},
		Status: corev1.NodeStatus{
			Capacity:    resources,
			Allocatable: resources,
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Simulated"}},
			Addresses:   []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}},
		},
	}
}

// CreateNodes makes all nodes of m, ready at once.
func (c *ControlPlane) CreateNodes(ctx context.Context, m Machines) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(requestsInFlight)
	for i := range m.Nodes() {
		group.Go(func() error {
			_, err := c.Client.CoreV1().Nodes().Create(ctx, m.Node(i), metav1.CreateOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("creating %d nodes: %w", m.Nodes(), err)
	}
	return nil
}

// Settle waits until KWOK has asked for the pods of every new node: what is measured
// beside that is slower.
func (c *ControlPlane) Settle(ctx context.Context) error {
	const calm = 2 * time.Second
	for before := -1.0; ; {
		requests, err := c.Requests(ctx, "pods")
		if err != nil {
			return err
		}
		lists := requests["LIST"]
		if lists == before {
			return nil
		}
		before = lists
		select {
		case <-time.After(calm):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
