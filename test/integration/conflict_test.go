// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// reject does to a pod what a kubelet does that has no room for it.
func (s *scene) reject(ctx context.Context, pod *corev1.Pod) error {
	patch := `{"status":{"phase":"Failed","reason":"OutOfnvidia.com/gpu","message":"Node didn't have enough resource: nvidia.com/gpu","containerStatuses":null}}`
	_, err := s.plane.Client.CoreV1().Pods(s.namespace).Patch(ctx, pod.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	return err
}

// conflictOn is true when the node has an event of a conflict with these words.
func (s *scene) conflictOn(node *string, words ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		list, err := s.plane.Client.CoreV1().Events(corev1.NamespaceDefault).List(ctx, metav1.ListOptions{
			FieldSelector: "involvedObject.kind=Node,involvedObject.name=" + *node + ",reason=PlacementConflict",
		})
		if err != nil {
			return err
		}
		var said []string
		for _, event := range list.Items {
			if contains(event.Message, words) == nil {
				return nil
			}
			said = append(said, event.Message)
		}
		return fmt.Errorf("node %s has no event of a conflict with %q, but %q", *node, words, said)
	}
}

// TestRejectedMemberComesBackElsewhere is case 67: another scheduler was faster
// on a node, so the kubelet does not admit a gang's pod. The node is left alone
// for a while, and the gang is whole again.
func TestRejectedMemberComesBackElsewhere(t *testing.T) {
	s := startedScene(t)
	var rejected string
	j := job("train", workers(4, 8))
	j.Spec.TFReplicaSpecs[kubeflowv1.TFJobReplicaTypeWorker].RestartPolicy = kubeflowv1.RestartPolicyNever
	s.run([]step{
		// The simulated kubelet has played its part before the test plays it: else it may
		// make the rejected pod run.
		{name: "a gang runs", do: s.create(j), check: all(s.bound("train", 4), func(ctx context.Context) error {
			return s.inPhase(ctx, []string{"train-worker-0", "train-worker-1", "train-worker-2", "train-worker-3"}, corev1.PodRunning)
		})},
		{name: "a kubelet rejects one of its pods", do: func(ctx context.Context) error {
			pods, err := s.plane.Pods(ctx, s.namespace, "train")
			if err != nil {
				return err
			}
			rejected = pods[2].Spec.NodeName
			return s.reject(ctx, &pods[2])
		}, check: s.conflictOn(&rejected, "its kubelet rejected pod "+s.namespace+"/train-worker-", "OutOfnvidia.com/gpu", "places no pods here for 1m0s")},
		{name: "the gang is whole again, and not there", check: func(ctx context.Context) error {
			pods, err := s.plane.Pods(ctx, s.namespace, "train")
			if err != nil {
				return err
			}
			whole := 0
			for _, pod := range pods {
				if pod.Status.Phase == corev1.PodFailed {
					continue
				}
				if pod.Spec.NodeName == rejected {
					t.Fatalf("pod %s is on %s again", pod.Name, rejected)
				}
				if pod.Spec.NodeName != "" {
					whole++
				}
			}
			if whole != 4 {
				return fmt.Errorf("%d of 4 pods run", whole)
			}
			return nil
		}},
		{name: "other gangs keep away too", do: s.create(job("rest", workers(60, 8))),
			check: s.refused("rest", 60, "avoided for a while after a conflict with another scheduler")},
	})
}

// TestNodeThatAnotherSchedulerFilledIsNoticed: pods of two schedulers ask for more
// than a node has.
func TestNodeThatAnotherSchedulerFilledIsNoticed(t *testing.T) {
	s := startedScene(t)
	var node string
	s.run([]step{
		{name: "a gang runs", do: s.create(job("train", workers(2, 8))), check: s.bound("train", 2)},
		{name: "another scheduler binds to one of its nodes", do: func(ctx context.Context) error {
			pods, err := s.plane.Pods(ctx, s.namespace, "train")
			if err != nil {
				return err
			}
			if len(pods) == 0 {
				return errors.New("the gang has no pods")
			}
			node = pods[0].Spec.NodeName
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}, Spec: podSpec("another-scheduler", 1)}
			if err := s.createPod(ctx, pod); err != nil {
				return err
			}
			return s.plane.Client.CoreV1().Pods(s.namespace).Bind(ctx, &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Name: "theirs", Namespace: s.namespace},
				Target:     corev1.ObjectReference{Kind: "Node", Name: node},
			}, metav1.CreateOptions{})
		}, check: s.conflictOn(&node, "pods of another-scheduler and tutti-scheduler ask for more nvidia.com/gpu than the node has")},
	})
}

// TestSinglePodsLeaveRoomForGangs: small pods share a host in a rack in use, and
// the gang that needs a whole rack finds one.
func TestSinglePodsLeaveRoomForGangs(t *testing.T) {
	s := newScene(t, shared)
	const pods = 12
	s.run([]step{
		{name: "pods of one GPU", do: func(ctx context.Context) error {
			for i := range pods {
				if err := s.createPod(ctx, single(fmt.Sprintf("one-%d", i), "", 1)); err != nil {
					return err
				}
			}
			return nil
		}, check: func(ctx context.Context) error {
			nodes := map[string]int{}
			for i := range pods {
				pod, err := s.plane.Client.CoreV1().Pods(s.namespace).Get(ctx, fmt.Sprintf("one-%d", i), metav1.GetOptions{})
				if err != nil {
					return err
				}
				if pod.Spec.NodeName == "" {
					return fmt.Errorf("pod %s waits", pod.Name)
				}
				nodes[pod.Spec.NodeName]++
			}
			if len(nodes) != 2 { // 12 GPUs are two hosts of 8
				t.Fatalf("they are on %v, want two hosts", nodes)
			}
			return nil
		}},
		{name: "seven gangs of a rack each", do: func(ctx context.Context) error {
			for i := range 7 {
				j := annotated(job(fmt.Sprintf("rack-%d", i), workers(8, 8)), "tutti.dev/required-topology", "rack")
				if err := s.createJob(ctx, j); err != nil {
					return err
				}
			}
			return nil
		}, check: func(ctx context.Context) error {
			var waiting []string
			for i := range 7 {
				if err := s.bound(fmt.Sprintf("rack-%d", i), 8)(ctx); err != nil {
					waiting = append(waiting, err.Error())
				}
			}
			if len(waiting) > 0 {
				return errors.New(strings.Join(waiting, "; "))
			}
			return nil
		}},
	})
}

// startedScene is on a control plane of its own: nodes in conflict are avoided
// for longer than a test takes.
func startedScene(t *testing.T) *scene {
	t.Helper()
	plane, err := startTutti(t.Context(), t.TempDir())
	must(t, err)
	t.Cleanup(plane.Stop)
	return newScene(t, plane)
}
