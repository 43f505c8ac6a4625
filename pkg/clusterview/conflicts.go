// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Conflict is why pods of one gang cannot share a host, put as a resource of
// which every host has Capacity. The planner then counts with it as with any
// other.
type Conflict struct {
	Name     string // as people read it; without a slash, for it is no device
	Capacity int64
	Takes    []int64 // [role] of one pod
}

// ConflictsOf reads the conflicts off the pods that count on one host alone:
// host ports, and required anti-affinity by host name to pods of the own role.
// Who is on a host already is not its business, nor is what only the filter
// plugins can say.
func ConflictsOf(roles []Role) []Conflict {
	return append(portConflicts(roles), hostAntiAffinity(roles)...)
}

// MeetsSiblings says whether filter plugins may judge a pod of the role by the
// other pods of its gang, beyond resources.
func (r Role) MeetsSiblings() bool {
	spec := &r.Pods[0].Spec
	if a := spec.Affinity; a != nil {
		if a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 ||
			a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
			return true
		}
	}
	if slices.ContainsFunc(spec.TopologySpreadConstraints, func(c v1.TopologySpreadConstraint) bool {
		return c.WhenUnsatisfiable == v1.DoNotSchedule
	}) {
		return true
	}
	return len(spec.ResourceClaims) > 0 || len(hostPortsOf(spec)) > 0 || slices.ContainsFunc(spec.Volumes, isAttached)
}

// isAttached: the volume is something that nodes attach, claim or share.
func isAttached(volume v1.Volume) bool {
	source := volume.VolumeSource
	return source.PersistentVolumeClaim != nil || source.Ephemeral != nil || source.CSI != nil ||
		source.GCEPersistentDisk != nil || source.AWSElasticBlockStore != nil || source.ISCSI != nil || source.RBD != nil
}

type hostPort struct {
	protocol v1.Protocol
	port     int32
}

// hostPortsOf lists the ports of the host that the pod takes, each once. (The
// API server fills them in for pods in the host's network.)
func hostPortsOf(spec *v1.PodSpec) []hostPort {
	var ports []hostPort
	for _, containers := range [][]v1.Container{spec.Containers, spec.InitContainers} {
		for _, container := range containers {
			for _, p := range container.Ports {
				if p.HostPort > 0 {
					ports = append(ports, hostPort{cmp.Or(p.Protocol, v1.ProtocolTCP), p.HostPort})
				}
			}
		}
	}
	slices.SortFunc(ports, func(a, b hostPort) int {
		return cmp.Or(cmp.Compare(a.port, b.port), cmp.Compare(a.protocol, b.protocol))
	})
	return slices.Compact(ports)
}

// portConflicts counts a port as one, on whichever of a host's addresses it is
// taken, unless a pod asks for one address: that is left to the filter plugins.
func portConflicts(roles []Role) []Conflict {
	var conflicts []Conflict
	at := map[hostPort]int{}
	for r, role := range roles {
		if bindsAddress(&role.Pods[0].Spec) {
			continue
		}
		for _, port := range hostPortsOf(&role.Pods[0].Spec) {
			i, ok := at[port]
			if !ok {
				i = len(conflicts)
				at[port] = i
				conflicts = append(conflicts, Conflict{
					Name: fmt.Sprintf("host port %d %s", port.port, port.protocol), Capacity: 1, Takes: make([]int64, len(roles)),
				})
			}
			conflicts[i].Takes[r] = 1
		}
	}
	return conflicts
}

func bindsAddress(spec *v1.PodSpec) bool {
	return slices.ContainsFunc(spec.Containers, func(c v1.Container) bool {
		return slices.ContainsFunc(c.Ports, func(p v1.ContainerPort) bool { return p.HostIP != "" && p.HostIP != "0.0.0.0" })
	})
}

// hostAntiAffinity: a pod of role A takes the whole of a host's capacity, and
// one of another role that A keeps away from takes one of it. So two of A
// conflict, and one of A with any other, but those do not among each other.
func hostAntiAffinity(roles []Role) []Conflict {
	var conflicts []Conflict
	pods := int64(0)
	for _, role := range roles {
		pods += int64(len(role.Pods))
	}
	for a, role := range roles {
		for _, term := range antiAffinityOf(role.Pods[0]) {
			if term.TopologyKey != v1.LabelHostname || !matches(term, role.Pods[0], role.Pods[0]) {
				continue
			}
			c := Conflict{Name: fmt.Sprintf("hosts without another %s", role.Name), Capacity: 1, Takes: make([]int64, len(roles))}
			for b, other := range roles {
				if b != a && matches(term, role.Pods[0], other.Pods[0]) {
					c.Takes[b], c.Capacity = 1, pods
				}
			}
			c.Takes[a] = c.Capacity
			conflicts = append(conflicts, c)
		}
	}
	return conflicts
}

func antiAffinityOf(pod *v1.Pod) []v1.PodAffinityTerm {
	if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		return a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}

// matches: the term of a pod selects another one of its own namespace.
func matches(term v1.PodAffinityTerm, owner, other *v1.Pod) bool {
	if len(term.Namespaces) > 0 && !slices.Contains(term.Namespaces, owner.Namespace) ||
		len(term.Namespaces) == 0 && term.NamespaceSelector != nil && !isEmpty(term.NamespaceSelector) {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
	return err == nil && selector.Matches(labels.Set(other.Labels))
}

func isEmpty(selector *metav1.LabelSelector) bool {
	return len(selector.MatchLabels) == 0 && len(selector.MatchExpressions) == 0
}
