// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	"github.com/tutti-project/tutti/pkg/clusterview"
)

func TestMinimumsSplitOverRoles(t *testing.T) {
	cases := map[string]struct {
		pods   []int
		wanted int
		floors []int
		want   []int
	}{
		"all are needed":                     {[]int{2, 4}, 6, []int{0, 0}, []int{2, 4}},
		"more than exist":                    {[]int{2, 4}, 7, []int{0, 0}, []int{2, 4}},
		"the largest role gives its surplus": {[]int{2, 4}, 5, []int{0, 0}, []int{2, 3}},
		"then the next":                      {[]int{2, 4}, 1, []int{0, 0}, []int{1, 0}},
		"none is needed":                     {[]int{2, 4}, 0, []int{0, 0}, []int{0, 0}},
		"no role falls below its floor":      {[]int{2, 8}, 3, []int{1, 4}, []int{1, 4}},
		"the largest goes to its floor":      {[]int{3, 8}, 6, []int{0, 4}, []int{2, 4}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			roles := make([]clusterview.Role, len(tc.pods))
			for i, n := range tc.pods {
				roles[i].Pods = make([]*v1.Pod, n)
			}
			if got := minimums(roles, tc.wanted, tc.floors); !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestFloorsOfRoles(t *testing.T) {
	pods := func(kind string, n int) []*v1.Pod {
		list := make([]*v1.Pod, n)
		for i := range list {
			list[i] = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{kubeflowv1.ReplicaTypeLabel: kind}}}
		}
		return list
	}
	minimums := []clusterview.RoleMinimum{{Type: "ps", Pods: 1}, {Type: "worker", Pods: 4}}
	cases := map[string]struct {
		ps, workers, others int // waiting
		running             []*v1.Pod
		want                []int
		lack                string
	}{
		"of each role its minimum":                         {2, 8, 0, nil, []int{1, 4, 0}, ""},
		"a role in two shapes has one minimum":             {1, 3, 5, nil, []int{1, 3, 1}, ""},
		"running pods count":                               {2, 8, 0, pods("worker", 3), []int{1, 1, 0}, ""},
		"a new gang waits for the pods of its minimum":     {0, 8, 0, nil, nil, "0 of the minimum of 1 pods of role ps exist"},
		"a running gang goes on with the pods that it has": {0, 1, 0, pods("worker", 2), []int{0, 1, 0}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			roles := []clusterview.Role{
				{Type: "ps", Pods: pods("ps", tc.ps)}, {Type: "worker", Pods: pods("worker", tc.workers)}, {Type: "worker", Pods: pods("worker", tc.others)},
			}
			got, lack := floors(roles, minimums, tc.running)
			if !slices.Equal(got, tc.want) || lack != tc.lack {
				t.Errorf("got %v and %q, want %v and %q", got, lack, tc.want, tc.lack)
			}
		})
	}
}
