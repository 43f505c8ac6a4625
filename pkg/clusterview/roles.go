// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	resourcehelper "k8s.io/component-helpers/resource"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	"github.com/tutti-project/tutti/pkg/placement"
	"github.com/tutti-project/tutti/pkg/topology"
)

// GroupOf returns the name of the pod's group, and whether it has one.
func GroupOf(pod *v1.Pod) (string, bool) {
	if g := pod.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		return *g.PodGroupName, true
	}
	return "", false
}

// Role is the pods of one replica type, or of one shape, in rank order: they
// are interchangeable to every filter.
type Role struct {
	Name    string
	Type    string // the replica type; empty for hand-made pods
	Pods    []*v1.Pod
	Request map[string]int64
	// Within is the domain that its pods must be in; nil for any.
	Within *int
}

// RolesOf groups a gang's pods: by the replica-type label, and within it by
// what the scheduler's filters look at. Roles come in the order of their types;
// ranks are the replica-index labels, else the natural order of names.
func RolesOf(pods []*v1.Pod) []Role { return RolesWith(pods, nil) }

// RolesWith is RolesOf where pods' claims can be looked up.
func RolesWith(pods []*v1.Pod, volumes *Volumes) []Role {
	pods = slices.Clone(pods)
	slices.SortFunc(pods, comparePods)
	var roles []Role
	var shapes []shape
	for _, pod := range pods {
		s := shapeOf(pod, volumes)
		i := slices.IndexFunc(shapes, func(other shape) bool { return apiequality.Semantic.DeepEqual(s, other) })
		if i < 0 {
			i = len(roles)
			shapes = append(shapes, s)
			roles = append(roles, Role{Name: s.Type, Type: s.Type, Request: RequestOf(pod)})
		}
		roles[i].Pods = append(roles[i].Pods, pod)
	}
	nameRoles(roles)
	return roles
}

// nameRoles gives every role a name of its own: pods of no replica type are
// called "pod", and a type that falls into several shapes is told apart by the
// first pod of each.
func nameRoles(roles []Role) {
	count := map[string]int{}
	for i := range roles {
		if roles[i].Name == "" {
			roles[i].Name = "pod"
		}
		count[roles[i].Name]++
	}
	for i := range roles {
		if name := roles[i].Name; count[name] > 1 {
			roles[i].Name = fmt.Sprintf("%s (like %s)", name, roles[i].Pods[0].Name)
		}
	}
}

// shape is what makes two pods different to a filter plugin.
type shape struct {
	Type              string
	Labels            map[string]string
	Requests          v1.ResourceList
	NodeSelector      map[string]string
	Affinity          *v1.Affinity
	Tolerations       []v1.Toleration
	Spread            []v1.TopologySpreadConstraint
	Ports             []v1.ContainerPort
	Volumes           []v1.Volume
	Claims            []claimShape
	ResourceClaims    []v1.PodResourceClaim
	NodeName          string
	RuntimeClass      *string
	HostNetwork       bool
	OS                *v1.PodOS
	SchedulingGateSet bool
}

func shapeOf(pod *v1.Pod, volumes *Volumes) shape {
	s := shape{
		Type:              typeOf(pod),
		Requests:          resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}),
		NodeSelector:      pod.Spec.NodeSelector,
		Affinity:          pod.Spec.Affinity,
		Tolerations:       pod.Spec.Tolerations,
		Spread:            pod.Spec.TopologySpreadConstraints,
		ResourceClaims:    pod.Spec.ResourceClaims,
		NodeName:          pod.Spec.NodeName,
		RuntimeClass:      pod.Spec.RuntimeClassName,
		HostNetwork:       pod.Spec.HostNetwork,
		OS:                pod.Spec.OS,
		SchedulingGateSet: len(pod.Spec.SchedulingGates) > 0,
	}
	if pod.Spec.Affinity != nil || len(pod.Spec.TopologySpreadConstraints) > 0 {
		// Labels matter to the pod's own terms alone; most pods differ by the
		// rank in theirs.
		s.Labels = maps.Clone(pod.Labels)
		delete(s.Labels, kubeflowv1.ReplicaIndexLabel)
	}
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			if port.HostPort != 0 || pod.Spec.HostNetwork {
				s.Ports = append(s.Ports, port)
			}
		}
	}
	for _, volume := range pod.Spec.Volumes {
		switch {
		case volume.PersistentVolumeClaim != nil:
			s.Claims = append(s.Claims, volumes.shapeOf(pod.Namespace, volume.PersistentVolumeClaim.ClaimName))
		case volume.Ephemeral != nil || volume.CSI != nil:
			s.Volumes = append(s.Volumes, volume)
		}
	}
	return s
}

// RequestOf is what a pod asks for, by resource.
func RequestOf(pod *v1.Pod) map[string]int64 {
	request := map[string]int64{podsResource: 1}
	for name, quantity := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
		if value := valueOf(string(name), quantity); value > 0 {
			request[string(name)] = value
		}
	}
	return request
}

// AsksForDevices says whether the role's pods ask for any device.
func (r Role) AsksForDevices() bool {
	for name := range r.Request {
		if placement.IsDevice(name) {
			return true
		}
	}
	return false
}

// Vector is the role's request in the order of the names given.
func (r Role) Vector(resources []string) []int64 {
	vector := make([]int64, len(resources))
	for i, name := range resources {
		vector[i] = r.Request[name]
	}
	return vector
}

// comparePods orders by replica type, then rank, then the natural order of names.
func comparePods(a, b *v1.Pod) int {
	return cmp.Or(
		cmp.Compare(typeOf(a), typeOf(b)),
		cmp.Compare(rankOf(a), rankOf(b)),
		topology.CompareNatural(a.Name, b.Name),
	)
}

func typeOf(pod *v1.Pod) string { return pod.Labels[kubeflowv1.ReplicaTypeLabel] }

// rankOf is the pod's replica index; pods without one come last.
func rankOf(pod *v1.Pod) int {
	if rank, err := strconv.Atoi(pod.Labels[kubeflowv1.ReplicaIndexLabel]); err == nil {
		return rank
	}
	return math.MaxInt
}
