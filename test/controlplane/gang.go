// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/tutti-project/tutti/pkg/apis/tutti"
)

// PodGroups is the resource of the gangs' API objects.
var PodGroups = v1alpha1.SchemeGroupVersion.WithResource("podgroups")

// Pods are the gang's pods as the API server has them now.
func (c *ControlPlane) Pods(ctx context.Context, namespace, gang string) ([]corev1.Pod, error) {
	selector := labels.Set{v1alpha1.PodGroupLabel: gang}.String()
	list, err := c.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// Bound is nil when the gang has just so many pods and all have nodes.
func (c *ControlPlane) Bound(ctx context.Context, namespace, gang string, size int) error {
	pods, err := c.Pods(ctx, namespace, gang)
	if err != nil {
		return err
	}
	var waiting []string
	for _, pod := range pods {
		if pod.Spec.NodeName == "" {
			waiting = append(waiting, pod.Name)
		}
	}
	if len(pods) != size || len(waiting) > 0 {
		return fmt.Errorf("gang %s has %d pods of %d, without a node: %v", gang, len(pods), size, waiting)
	}
	return nil
}

// Unbound is nil when the gang has just so many pods and none has a node.
func (c *ControlPlane) Unbound(ctx context.Context, namespace, gang string, size int) error {
	pods, err := c.Pods(ctx, namespace, gang)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		if pod.Spec.NodeName != "" {
			return fmt.Errorf("pod %s is bound to %s", pod.Name, pod.Spec.NodeName)
		}
	}
	if len(pods) != size {
		return fmt.Errorf("gang %s has %d pods, want %d", gang, len(pods), size)
	}
	return nil
}

// Racks are those with pods of the gang, in order of name.
func (c *ControlPlane) Racks(ctx context.Context, namespace, gang string) ([]string, error) {
	pods, err := c.Pods(ctx, namespace, gang)
	if err != nil {
		return nil, err
	}
	var racks []string
	for _, pod := range pods {
		node, err := c.Client.CoreV1().Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		racks = append(racks, node.Labels[RackLabel])
	}
	slices.Sort(racks)
	return slices.Compact(racks), nil
}

// Verdict is the scheduler's condition on the gang's PodGroup.
func (c *ControlPlane) Verdict(ctx context.Context, namespace, gang string) (metav1.Condition, error) {
	group, err := c.Dynamic.Resource(PodGroups).Namespace(namespace).Get(ctx, gang, metav1.GetOptions{})
	if err != nil {
		return metav1.Condition{}, err
	}
	return VerdictOf(group)
}

// VerdictOf reads the condition from a PodGroup.
func VerdictOf(group *unstructured.Unstructured) (metav1.Condition, error) {
	var read struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(group.Object, &read); err != nil {
		return metav1.Condition{}, err
	}
	for _, c := range read.Status.Conditions {
		if c.Type == tutti.GangPlacedCondition {
			return c, nil
		}
	}
	return metav1.Condition{}, fmt.Errorf("PodGroup %s has no condition %s", group.GetName(), tutti.GangPlacedCondition)
}

// TFConfig is the TF_CONFIG that TensorFlow would read: the last one wins.
func TFConfig(pod *corev1.Pod) string {
	value := ""
	for _, container := range pod.Spec.Containers {
		if container.Name != "tensorflow" {
			continue
		}
		for _, env := range container.Env {
			if env.Name == "TF_CONFIG" {
				value = env.Value
			}
		}
	}
	return value
}
