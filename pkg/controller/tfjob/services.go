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
	"github.com/tutti-project/tutti/pkg/apis/tutti"
)

// address is what a service is for: one slot, or all of them.
type address struct {
	name string
	slot *slot // nil: all
}

// addresses lists the services that a job needs.
func (v *view) addresses() []address {
	slots := v.slots()
	switch {
	case len(slots) == 0:
		return nil
	case v.perJob:
		return []address{{name: v.job.Name}}
	}
	addresses := make([]address, len(slots))
	for i := range slots {
		addresses[i] = address{slots[i].name(v.job), &slots[i]}
	}
	return addresses
}

// labels are the service's own, and select its pods.
func (a address) labels(job *kubeflowv1.TFJob) map[string]string {
	if a.slot == nil {
		return jobLabels(job)
	}
	return slotLabels(job, *a.slot)
}

// perJobServices tells whether one service of the job's name stands for all pods. The job's annotation says so, or else the
// administrator; pods that run have been told their peers' addresses, so a change of mind counts when they are gone.
func perJobServices(v *view, options Options) bool {
	if len(v.services) > 0 {
		return v.services[v.job.Name] != nil
	}
	switch v.job.Annotations[tutti.ServicesAnnotation] {
	case tutti.ServicesPerJob:
		return true
	case tutti.ServicesPerReplica:
		return false
	}
	return options.ServicePerJob
}

// newService makes the service by which the peers find a pod, or all pods. It is headless, and its names resolve before the pods are
// ready: the replicas of a job become ready by finding each other.
func newService(v *view, a address) *corev1.Service {
	labels := a.labels(v.job)
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name:            a.name,
			Namespace:       v.job.Namespace,
			Labels:          labels,
			OwnerReferences: ownerReferences(v.job),
		},
		Spec: corev1.ServiceSpec{
			ClusterIP:                corev1.ClusterIPNone,
			PublishNotReadyAddresses: true,
			Selector:                 labels,
			Ports:                    servicePorts(a.ports(v)),
		},
	}
}

// ports are those that the containers that train declare.
func (a address) ports(v *view) []corev1.ContainerPort {
	if a.slot != nil {
		return trainer(&a.slot.role.spec.Template.Spec).Ports
	}
	var ports []corev1.ContainerPort
	for i := range v.roles {
		ports = append(ports, trainer(&v.roles[i].spec.Template.Spec).Ports...)
	}
	return ports
}

// servicePorts puts the training port first. The API server wants each name, and each number of a protocol, once; of those that are
// declared twice, the first stands for both.
func servicePorts(declared []corev1.ContainerPort) []corev1.ServicePort {
	var first, others []corev1.ServicePort
	taken := map[string]bool{}
	for _, d := range declared {
		port := servicePort(d)
		if port.Name == kubeflowv1.TFJobDefaultPortName && len(first) == 0 {
			first = append(first, port)
			taken[port.Name], taken[numberOf(port)] = true, true
		}
	}
	for _, d := range declared {
		port := servicePort(d)
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
