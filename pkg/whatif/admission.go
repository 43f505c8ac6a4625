// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/utils/ptr"
)

var priorityKind = known(schedulingv1.SchemeGroupVersion.WithKind("PriorityClass"))

// admitOrTell admits a pod, or has settle know of the refusal: the controller
// tries again for ever.
func (w *world) admitOrTell(o *unstructured.Unstructured) error {
	err := w.admit(o)
	if err != nil {
		err = fmt.Errorf("pod %s is refused: %w", o.GetName(), err)
		select {
		case w.refused <- err:
		default:
		}
	}
	return err
}

// admit does to a new pod what an API server does and the scheduler relies on:
// defaults, requests from limits among them, and the priority of its class. It
// knows no LimitRange, quota or webhook.
func (w *world) admit(o *unstructured.Unstructured) error {
	var pod v1.Pod
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &pod); err != nil {
		return fmt.Errorf("pod %s: %w", o.GetName(), err)
	}
	corev1.SetObjectDefaults_Pod(&pod)
	class, err := w.classOf(pod.Spec.PriorityClassName)
	if err != nil {
		return err
	}
	if pod.Spec.Priority == nil {
		pod.Spec.Priority = new(class.Value)
	}
	if pod.Spec.PreemptionPolicy == nil {
		pod.Spec.PreemptionPolicy = class.PreemptionPolicy
	}
	if !w.preempt {
		pod.Spec.PreemptionPolicy = ptr.To(v1.PreemptNever)
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&pod)
	if err != nil {
		return fmt.Errorf("pod %s: %w", o.GetName(), err)
	}
	o.Object = object
	o.SetGroupVersionKind(podKind.GVK())
	return nil
}

// classOf finds the priority class, or without a name the cluster's default.
func (w *world) classOf(name string) (schedulingv1.PriorityClass, error) {
	classes, _ := w.store.list(priorityKind.Resource)
	for _, o := range classes {
		var class schedulingv1.PriorityClass
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &class); err != nil {
			return class, fmt.Errorf("priority class %s: %w", o.GetName(), err)
		}
		if class.Name == name || (name == "" && class.GlobalDefault) {
			return class, nil
		}
	}
	if name != "" && len(classes) > 0 {
		return schedulingv1.PriorityClass{}, fmt.Errorf("there is no priority class %s (kubectl get priorityclasses)", name)
	}
	return schedulingv1.PriorityClass{}, nil
}
