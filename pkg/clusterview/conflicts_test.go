// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestConflictsOf(t *testing.T) {
	role := func(name string, shape func(*v1.Pod)) Role {
		pods := make([]*v1.Pod, 3)
		for i := range pods {
			pods[i] = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: map[string]string{"role": name, "job": "j"}}}
			pods[i].Spec.Containers = []v1.Container{{}}
			shape(pods[i])
		}
		return Role{Name: name, Pods: pods}
	}
	port := func(ip string) func(*v1.Pod) {
		return func(pod *v1.Pod) {
			pod.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 2222, HostIP: ip}}
		}
	}
	apart := func(key, label, value string) func(*v1.Pod) {
		return func(pod *v1.Pod) {
			pod.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
					TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{label: value}},
				}},
			}}
		}
	}
	cases := map[string]struct {
		roles []Role
		want  []Conflict
	}{
		"two roles with one port": {
			[]Role{role("ps", port("")), role("worker", port("0.0.0.0"))},
			[]Conflict{{Name: "host port 2222 TCP", Capacity: 1, Takes: []int64{1, 1}}},
		},
		"a port of one address": {[]Role{role("worker", port("10.0.0.1"))}, nil},
		"apart from the own role": {
			[]Role{role("ps", func(*v1.Pod) {}), role("worker", apart(v1.LabelHostname, "role", "worker"))},
			[]Conflict{{Name: "hosts without another worker", Capacity: 1, Takes: []int64{0, 1}}},
		},
		"apart from all, which may share": {
			[]Role{role("ps", func(*v1.Pod) {}), role("worker", apart(v1.LabelHostname, "job", "j"))},
			[]Conflict{{Name: "hosts without another worker", Capacity: 6, Takes: []int64{1, 6}}},
		},
		"apart from others alone": {[]Role{role("ps", func(*v1.Pod) {}), role("worker", apart(v1.LabelHostname, "role", "ps"))}, nil},
		"apart by racks":          {[]Role{role("worker", apart("rack", "role", "worker"))}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, ConflictsOf(tc.roles)); diff != "" {
				t.Error("-want +got:\n", diff)
			}
		})
	}
}
