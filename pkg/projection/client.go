// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"context"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedv1beta1 "k8s.io/client-go/kubernetes/typed/scheduling/v1beta1"
)

// Client is the engine's clientset. It hands the conditions of refused pods to
// the PodStatusWriter (podstatus.go), and drops the engine's status patches of projected
// PodGroups: strategic ones, which CRDs refuse, made on the scheduling thread,
// of a condition that repeats the verdict in other words. The StatusWriter
// writes that condition where the native API has it. It also keeps members with
// scheduling gates from the engine (held.go).
type Client struct {
	kubernetes.Interface
	Projector  *Projector
	Membership *Membership
	Refusals   *PodStatusWriter
}

// SchedulingV1beta1 implements kubernetes.Interface.
func (c *Client) SchedulingV1beta1() typedv1beta1.SchedulingV1beta1Interface {
	return &schedulingClient{SchedulingV1beta1Interface: c.Interface.SchedulingV1beta1(), client: c}
}

type schedulingClient struct {
	typedv1beta1.SchedulingV1beta1Interface
	client *Client
}

// PodGroups implements typedv1beta1.PodGroupsGetter.
func (c *schedulingClient) PodGroups(namespace string) typedv1beta1.PodGroupInterface {
	return &podGroupClient{
		PodGroupInterface: c.SchedulingV1beta1Interface.PodGroups(namespace),
		client:            c.client, namespace: namespace,
	}
}

type podGroupClient struct {
	typedv1beta1.PodGroupInterface
	client    *Client
	namespace string
}

// Patch implements typedv1beta1.PodGroupInterface.
func (c *podGroupClient) Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (*schedulingv1beta1.PodGroup, error) {
	projected, ok := c.client.Projector.Projected(c.namespace, name)
	if !ok || len(subresources) != 1 || subresources[0] != "status" {
		return c.PodGroupInterface.Patch(ctx, name, pt, data, opts, subresources...)
	}
	return projected, nil
}
