// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// newService makes the service by which the peers of a slot find its pod. It is headless, and its name resolves before the pod is
// ready: the replicas of a job become ready by finding each other.
func newService(v *view, s slot) *corev1.Service {
	labels := slotLabels(v.job, s)
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name:            s.name(v.job),
			Namespace:       v.job.Namespace,
			Labels:          labels,
			OwnerReferences: ownerReferences(v.job),
		},
		Spec: corev1.ServiceSpec{
			ClusterIP:                corev1.ClusterIPNone,
			PublishNotReadyAddresses: true,
			Selector:                 labels,
			Ports:                    servicePorts(&s.role.spec.Template.Spec),
		},
	}
}

// servicePorts are the ports of the container that trains, the training port first. The API server wants each name, and each
// number of a protocol, once; where a template declares one twice, the first stands for both.
func servicePorts(pod *corev1.PodSpec) []corev1.ServicePort {
	var first, others []corev1.ServicePort
	taken := map[string]bool{}
	for _, declared := range trainer(pod).Ports {
		port := servicePort(declared)
		if port.Name == kubeflowv1.TFJobDefaultPortName && len(first) == 0 {
			first = append(first, port)
			taken[port.Name], taken[numberOf(port)] = true, true
		}
	}
	for _, declared := range trainer(pod).Ports {
		port := servicePort(declared)
		if !taken[port.Name] && !taken[numberOf(port)] {
			others = append(others, port)
			taken[port.Name], taken[numberOf(port)] = true, true
		}
	}
	return append(first, others...)
}

func servicePort(declared corev1.ContainerPort) corev1.ServicePort {
	port := corev1.ServicePort{
		Name:       declared.Name,
		Protocol:   declared.Protocol,
		Port:       declared.ContainerPort,
		TargetPort: intstr.FromInt32(declared.ContainerPort),
	}
	if port.Protocol == "" {
		port.Protocol = corev1.ProtocolTCP
	}
	if port.Name == "" {
		port.Name = strings.ToLower(fmt.Sprintf("port-%d-%s", port.Port, port.Protocol))
	}
	return port
}

func numberOf(port corev1.ServicePort) string {
	return fmt.Sprintf("%d/%s", port.Port, port.Protocol)
}
