// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	"github.com/tutti-project/tutti/pkg/clusterview"
	"github.com/tutti-project/tutti/pkg/placement"
	"github.com/tutti-project/tutti/pkg/topology"
)

func ofType(kind string, n int) []*v1.Pod {
	list := make([]*v1.Pod, n)
	for i := range list {
		list[i] = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{kubeflowv1.ReplicaTypeLabel: kind}}}
	}
	return list
}

func TestMinimumIsSplitOverReplicaTypes(t *testing.T) {
	floors := []clusterview.RoleMinimum{{Type: "ps", Pods: 1}, {Type: "worker", Pods: 4}}
	cases := map[string]struct {
		ps, workers, others int // waiting; workers come in two shapes
		wanted              int
		floors              []clusterview.RoleMinimum
		running             []*v1.Pod
		want                []int // ps, worker
		lack                string
	}{
		"all are needed":                           {2, 4, 0, 6, nil, nil, []int{2, 4}, ""},
		"more than exist":                          {2, 4, 0, 7, nil, nil, []int{2, 4}, ""},
		"the largest type gives its surplus":       {2, 4, 0, 5, nil, nil, []int{2, 3}, ""},
		"no type is emptied before another":        {2, 8, 0, 3, nil, nil, []int{2, 1}, ""},
		"of equal ones the larger gives first":     {2, 4, 0, 1, nil, nil, []int{1, 0}, ""},
		"none is needed":                           {2, 4, 0, 0, nil, nil, []int{0, 0}, ""},
		"no type falls below its own minimum":      {2, 8, 0, 3, floors, nil, []int{1, 4}, ""},
		"the largest goes to its minimum":          {3, 8, 0, 6, floors, nil, []int{2, 4}, ""},
		"a type in two shapes has one minimum":     {1, 3, 5, 0, floors, nil, []int{1, 4}, ""},
		"running pods count":                       {2, 8, 0, 0, floors, ofType("worker", 3), []int{1, 1}, ""},
		"a new gang waits for the minimum":         {0, 8, 0, 4, floors, nil, nil, "0 of the minimum of 1 pods of role ps exist"},
		"and for all of it":                        {1, 1, 2, 4, floors, nil, nil, "3 of the minimum of 4 pods of role worker exist"},
		"a running gang goes on with what is left": {0, 1, 0, 0, floors, ofType("worker", 2), []int{1}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var roles []clusterview.Role
			for _, pods := range [][]*v1.Pod{ofType("ps", tc.ps), ofType("worker", tc.workers), ofType("worker", tc.others)} {
				if len(pods) > 0 {
					roles = append(roles, clusterview.Role{Type: pods[0].Labels[kubeflowv1.ReplicaTypeLabel], Pods: pods})
				}
			}
			quotas, lack := quotasOf(roles, tc.wanted, tc.floors, tc.running)
			var got []int
			for _, q := range quotas {
				got = append(got, q.pods)
			}
			if !slices.Equal(got, tc.want) || lack != tc.lack {
				t.Errorf("got %v and %q, want %v and %q", got, lack, tc.want, tc.lack)
			}
		})
	}
}

// TestMinimumIsMetByWhicheverShapesHaveRoom: a gang of one replica type whose
// pods come in several shapes, each with room of its own in each rack.
func TestMinimumIsMetByWhicheverShapesHaveRoom(t *testing.T) {
	cases := map[string]struct {
		pods   []int   // [shape]
		room   [][]int // [rack][shape]
		wanted int
		fits   bool
	}{
		"the even split fits":                  {[]int{4, 4}, [][]int{{2, 2}}, 4, true},
		"one shape has no room":                {[]int{4, 4}, [][]int{{4, 0}}, 4, true},
		"the other has none":                   {[]int{4, 4}, [][]int{{0, 4}}, 4, true},
		"too little for one, more for another": {[]int{4, 4}, [][]int{{1, 3}}, 4, true},
		"too little for all":                   {[]int{4, 4}, [][]int{{1, 2}}, 4, false},
		"each rack takes another shape":        {[]int{4, 4}, [][]int{{3, 0}, {0, 4}}, 4, true},
		"no rack takes enough":                 {[]int{4, 4}, [][]int{{3, 0}, {0, 3}}, 4, false},
		"many of one pod each":                 {[]int{1, 1, 1, 1, 1, 1}, [][]int{{1, 0, 1, 0, 1, 1}}, 4, true},
		"the small shape does not help":        {[]int{6, 1}, [][]int{{5, 1}}, 6, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := shapes(tc.pods, tc.room, tc.wanted)
			decision := g.plan()
			if (decision.Hosts != nil) != tc.fits {
				t.Fatalf("fits is %t, want %t: %s", decision.Hosts != nil, tc.fits, decision.Explain(g.problem))
			}
			sum := 0
			for _, role := range g.problem.Roles {
				sum += role.Minimum
			}
			if sum != tc.wanted {
				t.Errorf("minimums %v, want %d in all", g.problem.Roles, tc.wanted)
			}
		})
	}
}

// shapes is a gang within a rack: shape s finds room[rack][s] in each.
func shapes(pods []int, room [][]int, wanted int) *gathered {
	var hosts []topology.HostLabels
	for rack := range room {
		hosts = append(hosts, topology.HostLabels{Name: fmt.Sprint("n", rack), Labels: map[string]string{"rack": fmt.Sprint("r", rack)}})
	}
	g := &gathered{wanted: wanted}
	p := placement.Problem{Tree: topology.New([]topology.Level{{Name: "rack", NodeLabels: []string{"rack"}}}, hosts), Constraint: placement.Constraint{Required: 1}}
	for s, n := range pods {
		p.Resources = append(p.Resources, fmt.Sprint("of shape ", s))
		request := make([]int64, len(pods))
		request[s] = 1
		g.roles = append(g.roles, clusterview.Role{Type: "worker", Pods: ofType("worker", n)})
		p.Roles = append(p.Roles, placement.Role{Name: fmt.Sprint("worker ", s), Pods: n, Request: request})
	}
	for _, each := range room {
		free := make([]int64, len(pods))
		for s, n := range each {
			free[s] = int64(n)
		}
		p.Free = append(p.Free, free)
	}
	g.problem, g.planner = p, placement.NewPlanner(p.Tree, p.Resources, p.Free)
	g.quotas, _ = quotasOf(g.roles, wanted, nil, nil)
	g.split(g.sizes(), -1)
	return g
}
