// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	tuttiapi "github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/test/controlplane"
)

// where is each pod of the gang with its rank, as the API server has it now.
func (s *scene) where(ctx context.Context, gang string) (nodes, ranks map[string]string, err error) {
	pods, err := s.plane.Pods(ctx, s.namespace, gang)
	nodes, ranks = map[string]string{}, map[string]string{}
	for _, pod := range pods {
		nodes[pod.Name], ranks[pod.Name] = pod.Spec.NodeName, pod.Labels[kubeflowv1.ReplicaIndexLabel]
	}
	return nodes, ranks, err
}

// drain cordons the node and deletes its pods of this namespace.
func (s *scene) drain(ctx context.Context, node string) error {
	pods, err := s.plane.Client.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err = errors.Join(err, s.cordon(ctx, node, true)); err != nil {
		return err
	}
	for _, pod := range pods.Items {
		err = errors.Join(err, s.plane.Client.CoreV1().Pods(s.namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{}))
	}
	return err
}

func (s *scene) cordon(ctx context.Context, node string, cordoned bool) error {
	_, err := s.plane.Client.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType,
		fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, cordoned), metav1.PatchOptions{})
	return err
}

// inRack puts pods into the rack, which is known when they are made.
func inRack(rack *string) func(int, *corev1.Pod) {
	return func(_ int, pod *corev1.Pod) {
		pod.Spec.NodeSelector = map[string]string{controlplane.RackLabel: *rack}
	}
}

// fillRack takes so many nodes, the rest of the gang's rack, which it finds out.
func (s *scene) fillRack(gang, name string, free int, rack *string) step {
	return step{
		name: "the rest of its rack is taken",
		do: func(ctx context.Context) error {
			racks, err := s.plane.Racks(ctx, s.namespace, gang)
			if err != nil {
				return err
			}
			*rack = racks[0]
			return s.createElastic(ctx, name, 1, free, nil, inRack(rack))
		},
		check: s.bound(name, free),
	}
}

// TestLostMemberComesBackToItsGang is case 53: the drained member gets another
// node of the gang's rack with its old rank, and nobody else moves.
func TestLostMemberComesBackToItsGang(t *testing.T) {
	for name, key := range map[string]string{"a rack is required": tuttiapi.RequiredTopologyAnnotation, "it is as near as can be": ""} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, shared)
			gang := job("train", workers(4, 8))
			gang.Spec.TFReplicaSpecs[kubeflowv1.TFJobReplicaTypeWorker].RestartPolicy = kubeflowv1.RestartPolicyExitCode
			if key != "" {
				gang = annotated(gang, key, "rack")
			}
			var before, ranks map[string]string
			lost := "train-worker-2"
			s.run([]step{
				{name: "a gang of half a rack", do: s.create(gang), check: s.bound("train", 4)},
				{
					name: "a node is drained",
					do: func(ctx context.Context) (err error) {
						if before, ranks, err = s.where(ctx, "train"); err != nil {
							return err
						}
						return s.drain(ctx, before[lost])
					},
					check: func(ctx context.Context) error {
						if err := s.bound("train", 4)(ctx); err != nil {
							return err
						}
						after, is, err := s.where(ctx, "train")
						if err != nil {
							return err
						}
						if after[lost] == before[lost] {
							return fmt.Errorf("%s is on %s still", lost, before[lost])
						}
						for pod, node := range before {
							if is[pod] != ranks[pod] || pod != lost && after[pod] != node {
								return fmt.Errorf("%s of rank %s is on %s as rank %s, was on %s", pod, ranks[pod], after[pod], is[pod], node)
							}
						}
						return nil
					},
				},
				{name: "in the same rack", check: s.racks("train", 1)},
				{name: "the verdict tells", check: s.condition("train", metav1.ConditionTrue, tuttiapi.GangPlacedReason, "1 more, now 4 of 4 pods")},
				{name: "the node is back", do: func(ctx context.Context) error { return s.cordon(ctx, before[lost], false) }},
			})
		})
	}
}

// TestLostMemberWithoutRoomWaitsInWords: its rack is full; it does not go
// elsewhere, the others go on, and it starts when there is room. If it is more
// important than a pod of the rack, that pod makes room, and none elsewhere.
func TestLostMemberWithoutRoomWaitsInWords(t *testing.T) {
	classes(t)
	for name, class := range map[string]string{"as important as its neighbours": "", "more important": "high"} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, shared)
			var before map[string]string
			var rack string
			lost := "train-worker-1"
			gang := annotated(ofClass(class, job("train", workers(4, 8))), tuttiapi.RequiredTopologyAnnotation, "rack")
			s.run([]step{
				{name: "a gang of half a rack", do: s.create(gang), check: s.bound("train", 4)},
				s.fillRack("train", "near", 4, &rack),
				{
					name: "and all other racks", do: func(ctx context.Context) error { return s.createElastic(ctx, "far", 1, nodes-8, nil, nil) },
					check: s.bound("far", nodes-8),
				},
				{
					name: "a node is drained",
					do: func(ctx context.Context) (err error) {
						if before, _, err = s.where(ctx, "train"); err != nil {
							return err
						}
						return s.drain(ctx, before[lost])
					},
				},
			})
			if class == "" {
				s.run([]step{
					{
						name:  "it waits",
						check: all(s.partly("train", 3, 1), s.condition("train", metav1.ConditionFalse, tuttiapi.UnschedulableReason, "rack "+rack, "worker")),
					},
					{name: "and goes nowhere else when there is room", do: func(ctx context.Context) error {
						return s.plane.Client.CoreV1().Pods(s.namespace).Delete(ctx, "far-0", metav1.DeleteOptions{})
					}, check: stays(s.partly("train", 3, 1))},
					{name: "the node is back", do: func(ctx context.Context) error { return s.cordon(ctx, before[lost], false) }, check: s.bound("train", 4)},
				})
			} else {
				s.run([]step{
					{name: "a neighbour goes", check: func(ctx context.Context) error {
						after, _, err := s.where(ctx, "train")
						if err == nil && after[lost] == before[lost] {
							err = fmt.Errorf("%s is on its old node still", lost)
						}
						return errors.Join(err, s.bound("train", 4)(ctx))
					}},
					{name: "the node is back", do: func(ctx context.Context) error { return s.cordon(ctx, before[lost], false) }},
				})
				if near, far := s.evicted("near"), s.evicted("far"); near != 1 || far != 0 {
					t.Errorf("%d pods were evicted in the rack and %d elsewhere, want 1 and 0", near, far)
				}
			}
			s.run([]step{{name: "in its rack", check: s.racks("train", 1)}})
			for _, move := range s.moved() {
				t.Error(move)
			}
		})
	}
}
