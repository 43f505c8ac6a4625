// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	tuttiapi "github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/test/controlplane"
)

var podGroupResource = v1alpha1.SchemeGroupVersion.WithResource("podgroups")

// pods are the gang's pods as the API server has them now.
func (s *scene) pods(ctx context.Context, gang string) ([]corev1.Pod, error) {
	selector := labels.Set{v1alpha1.PodGroupLabel: gang}.String()
	list, err := s.plane.Client.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// bound is true when the gang has just so many pods and all have nodes.
func (s *scene) bound(gang string, size int) func(context.Context) error {
	return func(ctx context.Context) error {
		pods, err := s.pods(ctx, gang)
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
}

// refused is true when all pods of the gang exist, none has a node, and the
// PodGroup's condition says no with all of these words.
func (s *scene) refused(gang string, size int, words ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		pods, err := s.pods(ctx, gang)
		if err != nil {
			return err
		}
		if len(pods) != size {
			return fmt.Errorf("gang %s has %d pods, want %d", gang, len(pods), size)
		}
		for _, pod := range pods {
			if pod.Spec.NodeName != "" {
				return fmt.Errorf("pod %s is bound to %s", pod.Name, pod.Spec.NodeName)
			}
		}
		return s.condition(gang, metav1.ConditionFalse, tuttiapi.UnschedulableReason, words...)(ctx)
	}
}

// condition is true when the PodGroup's verdict has this status and reason and
// its message has these words.
func (s *scene) condition(gang string, status metav1.ConditionStatus, reason string, words ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		group, err := s.plane.Dynamic.Resource(podGroupResource).Namespace(s.namespace).Get(ctx, gang, metav1.GetOptions{})
		if err != nil {
			return err
		}
		verdict, err := verdictOf(group)
		if err != nil {
			return err
		}
		if verdict.Status != status || verdict.Reason != reason {
			return fmt.Errorf("verdict on %s is %s %s (%s), want %s %s", gang, verdict.Status, verdict.Reason, verdict.Message, status, reason)
		}
		return contains(verdict.Message, words)
	}
}

func verdictOf(group *unstructured.Unstructured) (metav1.Condition, error) {
	var status struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(group.Object, &status); err != nil {
		return metav1.Condition{}, err
	}
	for _, c := range status.Status.Conditions {
		if c.Type == tuttiapi.GangPlacedCondition {
			return c, nil
		}
	}
	return metav1.Condition{}, fmt.Errorf("PodGroup %s has no condition %s", group.GetName(), tuttiapi.GangPlacedCondition)
}

// event is true when the PodGroup has an event with this reason and words.
func (s *scene) event(gang, reason string, words ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		list, err := s.plane.Client.CoreV1().Events(s.namespace).List(ctx, metav1.ListOptions{
			FieldSelector: "involvedObject.kind=PodGroup,involvedObject.name=" + gang + ",reason=" + reason,
		})
		if err != nil {
			return err
		}
		err = fmt.Errorf("PodGroup %s has no event %s", gang, reason)
		for _, event := range list.Items {
			if err = contains(event.Message, words); err == nil {
				return nil
			}
		}
		return err
	}
}

// racks is true when the gang's pods are spread over just so many racks.
func (s *scene) racks(gang string, want int) func(context.Context) error {
	return func(ctx context.Context) error {
		pods, err := s.pods(ctx, gang)
		if err != nil {
			return err
		}
		var racks []string
		for _, pod := range pods {
			node, err := s.plane.Client.CoreV1().Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
			if err != nil {
				return err
			}
			racks = append(racks, node.Labels[controlplane.RackLabel])
		}
		slices.Sort(racks)
		if racks = slices.Compact(racks); len(racks) != want {
			return fmt.Errorf("gang %s is in racks %v, want %d", gang, racks, want)
		}
		return nil
	}
}

func contains(message string, words []string) error {
	for _, word := range words {
		if !strings.Contains(message, word) {
			return fmt.Errorf("%q lacks %q", message, word)
		}
	}
	return nil
}

// all is true when every check is.
func all(checks ...func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, check := range checks {
			if err := check(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}
