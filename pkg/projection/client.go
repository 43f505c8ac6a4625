// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"context"
	"encoding/json"
	"fmt"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedv1beta1 "k8s.io/client-go/kubernetes/typed/scheduling/v1beta1"
)

// Client is a clientset whose status patches of projected PodGroups go to the
// StatusWriter. The engine makes them on its scheduling thread; here they cost
// no request there.
type Client struct {
	kubernetes.Interface
	Projector *Projector
	Status    *StatusWriter
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
	var patch struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := json.Unmarshal(data, &patch); err != nil {
		return nil, fmt.Errorf("reading the status patch of pod group %s/%s: %w", c.namespace, name, err)
	}
	for _, condition := range patch.Status.Conditions {
		c.client.Status.Set(projected, condition)
	}
	return projected, nil
}
