// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	"github.com/tutti-project/tutti/pkg/placement"
)

func ranked(role string, n int) []resident {
	var list []resident
	for i := range n {
		list = append(list, resident{pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%d", role, i), Namespace: "ns",
			Labels: map[string]string{kubeflowv1.ReplicaTypeLabel: role, kubeflowv1.ReplicaIndexLabel: fmt.Sprint(i)},
		}}})
	}
	return list
}

func TestGangSparesTheLastRanksOfItsLargestRole(t *testing.T) {
	cases := map[string]struct {
		members []resident
		gang    Gang
		want    []string
	}{
		"all are needed":                {ranked("worker", 3), Gang{Minimum: 3}, nil},
		"it has lost some already":      {ranked("worker", 3), Gang{Minimum: 5}, nil},
		"the last first":                {ranked("worker", 11), Gang{Minimum: 9}, []string{"worker-10", "worker-9"}},
		"none of a role's minimum":      {append(ranked("ps", 2), ranked("worker", 3)...), Gang{Minimum: 2, Roles: []RoleMinimum{{"ps", 2}, {"worker", 2}}}, []string{"worker-2"}},
		"of the largest as they shrink": {append(ranked("ps", 2), ranked("worker", 3)...), Gang{Minimum: 2}, []string{"worker-2", "ps-1", "worker-1"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, spare := range spares(tc.members, tc.gang) {
				got = append(got, spare.pod.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestBudgetsCountWhatUnitsTakeTogether(t *testing.T) {
	budget := func(allowed int32, disrupted ...string) *policyv1.PodDisruptionBudget {
		b := &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: "ns"},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{kubeflowv1.ReplicaTypeLabel: "worker"}}},
			Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed, DisruptedPods: map[string]metav1.Time{}},
		}
		for _, name := range disrupted {
			b.Status.DisruptedPods[name] = metav1.Time{}
		}
		return b
	}
	cases := map[string]struct {
		budget *policyv1.PodDisruptionBudget
		want   []string
	}{
		"enough for both":               {budget(2), nil},
		"enough for each, not for both": {budget(1), []string{"ns/b"}},
		"one is being evicted already":  {budget(1, "worker-0"), nil},
		"less than none is none":        {budget(-1, "worker-0", "worker-1"), nil},
		"none":                          {budget(0), []string{"ns/b"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := collector{budgets: budgetsOf([]*policyv1.PodDisruptionBudget{tc.budget})}
			for _, m := range ranked("worker", 2) {
				c.add(Unit{}, []resident{m}, placement.Cost{})
			}
			if diff := cmp.Diff(tc.want, c.out.Violated([]int{0, 1})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestGangHasOnePriority is case 34: a gang whose pods differ, as one of another
// scheduler may, has the highest of theirs, and no pod of it goes alone.
func TestGangHasOnePriority(t *testing.T) {
	pod := func(name, gang string, priority int32) *v1.Pod {
		p := podAsking(name, v1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")})
		p.Labels = map[string]string{v1alpha1.PodGroupLabel: gang}
		p.Spec.Priority = &priority
		return p
	}
	hosts := NewBuilder(rackLevel).Build([]fwk.NodeInfo{
		infoOf(node("n1", "r1"), pod("a", "mixed", 1), pod("c", "low", 1)), infoOf(node("n2", "r1"), pod("b", "mixed", 9), pod("d", "low", 2)),
	})
	for priority, want := range map[int32][]string{1: nil, 2: nil, 3: {"gang ns/low (2 pods)"}, 9: {"gang ns/low (2 pods)"}, 10: {"gang ns/mixed (2 pods)", "gang ns/low (2 pods)"}} {
		e := EvictionOf(hosts, []string{"nvidia.com/gpu"}, Preemptor{Priority: priority, Own: func(*v1.Pod) bool { return false }},
			func(types.NamespacedName) (Gang, bool) { return Gang{}, false }, nil, historyNow)
		var got []string
		for _, unit := range e.Units {
			got = append(got, unit.String())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("for priority %d (-want +got):\n%s", priority, diff)
		}
	}
}
