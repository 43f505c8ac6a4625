// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	tuttiapi "github.com/tutti-project/tutti/pkg/apis/tutti"
)

// ofClasses adds a member of each class, named by the class's place.
func (s *scene) ofClasses(gang string, from int, classes ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		return s.addMembers(ctx, gang, from, from+len(classes), func(i int, pod *corev1.Pod) {
			pod.Spec.PriorityClassName = classes[i-from]
		})
	}
}

// TestGangWhosePodsDisagreeIsTold: the engine does not try a gang whose pods differ in
// priority or preemption policy, those that run too. Nobody else waits for it, and it
// starts when they agree.
func TestGangWhosePodsDisagreeIsTold(t *testing.T) {
	classes(t)
	s := newScene(t, shared)
	incomplete := func(words ...string) func(context.Context) error {
		return all(
			s.condition("g", metav1.ConditionFalse, tuttiapi.IncompleteReason, append(words, "one priority class")...),
			s.podHasNode("bystander"),
		)
	}
	s.run([]step{
		{name: "a gang is to be", do: func(ctx context.Context) error { return s.createPodGroup(ctx, "g", 2) }},
		{name: "two classes of one value", do: s.ofClasses("g", 0, "high", "polite")},
		{name: "another pod", do: func(ctx context.Context) error { return s.createPod(ctx, single("bystander", "", 1)) },
			check: incomplete("preemptionPolicy (PreemptLowerPriority and, of pod g-1, Never)")},
		{name: "the odd one goes", do: func(ctx context.Context) error { return s.deletePods(ctx, "g-1") }, check: s.exists("g", 1)},
		{name: "and is made anew", do: s.ofClasses("g", 1, "high"), check: s.bound("g", 2)},
		{name: "one is lost", do: func(ctx context.Context) error { return s.deletePods(ctx, "g-0") }, check: s.exists("g", 1)},
		{name: "and comes with another priority", do: s.ofClasses("g", 0, ""),
			check: incomplete("differ in priority (0 and, of pod g-1 on node ", "1000)")},
		{name: "the other one goes", do: func(ctx context.Context) error { return s.deletePods(ctx, "g-1") }, check: s.exists("g", 1)},
		{name: "and agrees", do: s.ofClasses("g", 1, ""), check: s.bound("g", 2)},
	})
}
