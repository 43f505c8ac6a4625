// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tutti-project/tutti/pkg/placement"
)

// budget is a disruption budget, its selector parsed.
type budget struct {
	object   *policyv1.PodDisruptionBudget
	selector labels.Selector
	left     placement.Budget
}

// budgetsOf parses budgets. One without a selector, or with one that the API
// server should not have let in, is over no pod.
func budgetsOf(objects []*policyv1.PodDisruptionBudget) map[string][]*budget {
	list := map[string][]*budget{}
	for _, object := range objects {
		selector, err := metav1.LabelSelectorAsSelector(object.Spec.Selector)
		if err != nil || selector.Empty() {
			continue
		}
		list[object.Namespace] = append(list[object.Namespace], &budget{
			object: object, selector: selector, left: placement.Budget{Allowed: int(object.Status.DisruptionsAllowed)},
		})
	}
	return list
}

// has tells whether an eviction of the pod would draw on the budget. Pods that
// the API server is already evicting have done so.
func (b *budget) has(pod *v1.Pod) bool {
	_, counted := b.object.Status.DisruptedPods[pod.Name]
	return !counted && b.selector.Matches(labels.Set(pod.Labels))
}

// Violated names the budgets of which these units, by position, take more than
// is allowed.
func (e Eviction) Violated(chosen []int) []string {
	names, drawn := map[*placement.Budget]string{}, map[*placement.Budget]int{}
	for _, v := range chosen {
		for i, draw := range e.Victims[v].Draws {
			object := e.Units[v].Budgets[i]
			names[draw.Budget] = object.Namespace + "/" + object.Name
			drawn[draw.Budget] += draw.Pods
		}
	}
	var violated []string
	for budget, pods := range drawn {
		if pods > max(0, budget.Allowed) {
			violated = append(violated, names[budget])
		}
	}
	slices.Sort(violated)
	return violated
}
