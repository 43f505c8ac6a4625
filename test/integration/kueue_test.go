// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	tuttiapi "github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/test/controlplane"
)

const kueueGate = "kueue.x-k8s.io/topology"

// gated is a member that waits for a gate and bears Kueue's annotation.
func gated(name, gang string, gpus int64) *corev1.Pod {
	pod := member(name, gang, gpus)
	pod.Annotations = map[string]string{tuttiapi.KueueRequiredTopologyAnnotation: controlplane.RackLabel}
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: kueueGate}}
	return pod
}

// ungate takes the gates away, and says where the pod must go if node is not
// empty: both in one step, as Kueue's topology ungater does.
func (s *scene) ungate(node func(i int) string, pods ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		for i, name := range pods {
			spec := map[string]any{"schedulingGates": nil}
			if node != nil {
				spec["nodeSelector"] = map[string]string{corev1.LabelHostname: node(i)}
			}
			patch, err := json.Marshal(map[string]any{"spec": spec})
			if err != nil {
				return err
			}
			if _, err := s.plane.Client.CoreV1().Pods(s.namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
				return err
			}
		}
		return nil
	}
}

func (s *scene) createGated(gang string, pods int) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := s.createPodGroup(ctx, gang, int32(pods)); err != nil {
			return err
		}
		for i := range pods {
			if err := s.createPod(ctx, gated(fmt.Sprintf("%s-%d", gang, i), gang, 8)); err != nil {
				return err
			}
		}
		return nil
	}
}

// TestGatedPodsHoldTheirGang is how Kueue and others admit jobs: nothing starts
// before the last gate is gone, and then all of it does, in one rack as Kueue's
// annotation asks.
func TestGatedPodsHoldTheirGang(t *testing.T) {
	s := newScene(t, shared)
	s.run([]step{
		{name: "all pods wait at their gates", do: s.createGated("g", 4),
			check: s.condition("g", metav1.ConditionFalse, tuttiapi.IncompleteReason, "scheduling gates")},
		{name: "three gates go", do: s.ungate(nil, "g-0", "g-1", "g-2"),
			check: s.condition("g", metav1.ConditionFalse, tuttiapi.IncompleteReason, "3 pods can start", "1 have scheduling gates")},
		{name: "and nothing starts", check: func(ctx context.Context) error { return s.plane.Unbound(ctx, s.namespace, "g", 4) }},
		{name: "the last gate goes", do: s.ungate(nil, "g-3"), check: all(s.bound("g", 4), s.racks("g", 1))},
	})
	s.expectWhole(t, "g", 4)
}

// TestPodsGoWhereKueueSaysTheyMust: whoever opens the gates may name the node.
func TestPodsGoWhereKueueSaysTheyMust(t *testing.T) {
	s := newScene(t, shared)
	node := func(i int) string { return controlplane.Small.Node(9 + i).Name } // in one rack
	s.run([]step{
		{name: "pods wait", do: s.createGated("g", 3)},
		{name: "their nodes are named", do: s.ungate(node, "g-0", "g-1", "g-2"), check: s.bound("g", 3)},
	})
	pods, err := s.plane.Pods(t.Context(), s.namespace, "g")
	must(t, err)
	for i := range pods {
		if want := node(i); pods[i].Name == fmt.Sprintf("g-%d", i) && pods[i].Spec.NodeName != want {
			t.Errorf("pod %s is on %s, want %s", pods[i].Name, pods[i].Spec.NodeName, want)
		}
	}
	s.expectWhole(t, "g", 3)
}

// TestKueuesAnnotationsOnAJob: a job's template bears them, and what cannot be
// met or read is said in Kueue's own words.
func TestKueuesAnnotationsOnAJob(t *testing.T) {
	s := newScene(t, shared)
	asks := func(j *kubeflowv1.TFJob, key, value string) *kubeflowv1.TFJob {
		j.Spec.TFReplicaSpecs[kubeflowv1.TFJobReplicaTypeWorker].Template.Annotations = map[string]string{key: value}
		return j
	}
	s.run([]step{
		{name: "a rack holds eight", do: s.create(asks(job("fits", workers(8, 8)), tuttiapi.KueueRequiredTopologyAnnotation, controlplane.RackLabel)),
			check: all(s.bound("fits", 8), s.racks("fits", 1))},
		{name: "and not nine", do: s.create(asks(job("large", workers(9, 8)), tuttiapi.KueueRequiredTopologyAnnotation, controlplane.RackLabel)),
			check: s.refused("large", 9, "rack")},
		{name: "which is preferred only", do: s.create(asks(job("spread", workers(9, 8)), tuttiapi.KueuePreferredTopologyAnnotation, controlplane.RackLabel)),
			check: all(s.bound("spread", 9), s.racks("spread", 2))},
		{name: "an unknown level", do: s.create(asks(job("typo", workers(2, 8)), tuttiapi.KueueRequiredTopologyAnnotation, "example.com/rack")),
			check: s.refused("typo", 2, tuttiapi.KueueRequiredTopologyAnnotation, `"example.com/rack"`)},
	})
}
