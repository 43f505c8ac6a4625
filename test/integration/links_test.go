// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
	tuttiapi "github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/pkg/clusterview/machines"
)

// TestGPULinkIsPromisedWhereEveryChoiceHasIt: of all nodes three have a
// NodeTopology, and of the others nothing is known.
func TestGPULinkIsPromisedWhereEveryChoiceHasIt(t *testing.T) {
	s := newScene(t, shared)
	s.run([]step{
		{
			name: "8 linked GPUs while no agent runs",
			do: func(ctx context.Context) error {
				return s.createJob(ctx, linkedJob("eight", 1, 8))
			},
			check: s.refused("eight", 1, "worker", "it is not known how the GPUs of n001 are linked: it has no NodeTopology", "nor of 63 other hosts"),
		},
		{
			name:  "a DGX-1 is published: all its GPUs are one ring",
			do:    s.publish("dgx-1v", "n001"),
			check: all(s.bound("eight", 1), s.on("eight", "n001")),
		},
		{
			name: "it ends, and four are asked for",
			do: func(ctx context.Context) error {
				if err := s.deleteJob(ctx, "eight"); err != nil {
					return err
				}
				return s.createJob(ctx, linkedJob("four", 1, 4))
			},
			check: s.refused("four", 1, "the device plugin may pick 4 of the free GPUs on n001 that are not NVLink-connected", "of 63 hosts it is not known"),
		},
		{
			name: "a pod gets one quad, so that the other is all there is",
			do: func(ctx context.Context) error {
				if err := s.createPod(ctx, pinned("quad", "n001", 4)); err != nil {
					return err
				}
				return s.report(ctx, "n001", map[string][]int{s.namespace + "/quad": {0, 1, 2, 3}})
			},
			check: all(s.bound("four", 1), s.on("four", "n001")),
		},
		{
			name: "behind a switch all GPUs are alike",
			do: func(ctx context.Context) error {
				if err := s.publish("hgx-h100", "n003")(ctx); err != nil {
					return err
				}
				return s.createJob(ctx, linkedJob("switched", 2, 3))
			},
			check: all(s.bound("switched", 2), s.on("switched", "n003")),
		},
	})
	s.expectWhole(t, "switched", 2)
}

// TestBrokenPairsAreNoPairs: of bridged pairs single pods leave GPUs over that are
// linked to none that is free.
func TestBrokenPairsAreNoPairs(t *testing.T) {
	s := newScene(t, shared)
	s.run([]step{
		{
			name: "6 of 8 GPUs are taken, one of each of two pairs",
			do: func(ctx context.Context) error {
				if err := s.publish("a40-8", "n002")(ctx); err != nil {
					return err
				}
				for name, gpus := range map[string]int64{"a": 1, "b": 1, "c": 4} {
					if err := s.createPod(ctx, pinned(name, "n002", gpus)); err != nil {
						return err
					}
				}
				return s.report(ctx, "n002", map[string][]int{
					s.namespace + "/a": {1}, s.namespace + "/b": {3}, s.namespace + "/c": {4, 5, 6, 7},
				})
			},
		},
		{
			name: "a pair is asked for",
			do: func(ctx context.Context) error {
				return s.createJob(ctx, linkedJob("pair", 1, 2))
			},
			check: s.refused("pair", 1, "2 free GPUs on n002 are not NVLink-connected"),
		},
		{
			name: "both singles end, and which GPU is free is not certain",
			do: func(ctx context.Context) error {
				return s.deletePods(ctx, "a", "b")
			},
		},
		{
			name: "one comes again and gets the other pair's",
			do: func(ctx context.Context) error {
				if err := s.createPod(ctx, pinned("d", "n002", 2)); err != nil {
					return err
				}
				return s.report(ctx, "n002", map[string][]int{s.namespace + "/d": {2, 3}, s.namespace + "/c": {4, 5, 6, 7}})
			},
			check: all(s.bound("pair", 1), s.on("pair", "n002")),
		},
	})
}

// TestStaleTopologyPromisesNothing, and one that is right again lets the gang in.
func TestStaleTopologyPromisesNothing(t *testing.T) {
	s := newScene(t, shared)
	object := func(ctx context.Context) (*v1alpha1.NodeTopology, error) {
		return s.tutti.TopologyV1alpha1().NodeTopologies().Get(ctx, "n001", metav1.GetOptions{})
	}
	s.run([]step{
		{
			name: "an agent that has been silent for an hour",
			do: func(ctx context.Context) error {
				if err := s.publish("hgx-h100", "n001")(ctx); err != nil {
					return err
				}
				stale, err := object(ctx)
				if err != nil {
					return err
				}
				stale.Status.HeartbeatTime = &metav1.Time{Time: time.Now().Add(-time.Hour)}
				if err := s.writeStatus(ctx, stale); err != nil {
					return err
				}
				return s.createJob(ctx, linkedJob("two", 1, 2))
			},
			check: s.refused("two", 1, "it is not known how the GPUs of n001 are linked: its NodeTopology is older than 15m0s"),
		},
		{
			name: "it beats again, but the node has other GPUs than it says",
			do: func(ctx context.Context) error {
				wrong, err := object(ctx)
				if err != nil {
					return err
				}
				wrong.Spec.GPUs, wrong.Spec.Links = wrong.Spec.GPUs[:4], nil
				if wrong, err = s.tutti.TopologyV1alpha1().NodeTopologies().Update(ctx, wrong, metav1.UpdateOptions{}); err != nil {
					return err
				}
				machines.Report(wrong, time.Now(), nil)
				return s.writeStatus(ctx, wrong)
			},
			check: s.refused("two", 1, "the node has 8 of nvidia.com/gpu, its NodeTopology 4 whole GPUs"),
		},
		{
			name: "it is right",
			do: func(ctx context.Context) error {
				if err := s.tutti.TopologyV1alpha1().NodeTopologies().Delete(ctx, "n001", metav1.DeleteOptions{}); err != nil {
					return err
				}
				return s.publish("hgx-h100", "n001")(ctx)
			},
			check: all(s.bound("two", 1), s.on("two", "n001")),
		},
	})
}

// TestIllGPUsAreNotCounted, even while the kubelet offers them.
func TestIllGPUsAreNotCounted(t *testing.T) {
	s := newScene(t, shared)
	whole := linkedJob("whole", 1, 8)
	s.run([]step{
		{
			name: "one of 8 GPUs is ill",
			do: func(ctx context.Context) error {
				if err := s.publish("hgx-h100", "n001")(ctx); err != nil {
					return err
				}
				object, err := s.tutti.TopologyV1alpha1().NodeTopologies().Get(ctx, "n001", metav1.GetOptions{})
				if err != nil {
					return err
				}
				object.Status.Free = slices.Delete(object.Status.Free, 5, 6)
				object.Status.Unhealthy = []v1alpha1.UnhealthyGPU{{UUID: machines.UUID("n001", 5), Reason: "Xid79"}}
				if err := s.writeStatus(ctx, object); err != nil {
					return err
				}
				return s.createJob(ctx, whole)
			},
			check: s.refused("whole", 1, "it is not known", "nor of 62 other hosts"),
		},
		{
			name: "it is well again",
			do: func(ctx context.Context) error {
				return s.report(ctx, "n001", nil)
			},
			check: all(s.bound("whole", 1), s.on("whole", "n001")),
		},
	})
}

// TestRefusalTellsNoRoomNowFromNever: 64 nodes of 8 GPUs, 8 to a rack.
func TestRefusalTellsNoRoomNowFromNever(t *testing.T) {
	s := newScene(t, shared)
	s.run([]step{
		{
			name: "half of a rack for one gang, which leaves four nodes of every rack",
			do: func(ctx context.Context) error {
				for i := 1; i <= 64; i += 2 {
					if err := s.createPod(ctx, pinned(fmt.Sprint("p", i), fmt.Sprintf("n%03d", i), 1)); err != nil {
						return err
					}
				}
				return s.createJob(ctx, annotated(job("later", workers(8, 8)), tuttiapi.RequiredTopologyAnnotation, "rack"))
			},
			check: s.refused("later", 8, "room for 4 of 8 worker", "nvidia.com/gpu short by 32, beside 28 free where no such pod fits", "would take it", "without other pods rack r"),
		},
		{
			name: "more than any rack has",
			do: func(ctx context.Context) error {
				return s.createJob(ctx, annotated(job("never", workers(9, 8)), tuttiapi.RequiredTopologyAnnotation, "rack"))
			},
			check: s.refused("never", 9, "room for 4 of 9 worker", "without any other pods rack r", "would still only have room for 8 of 9 worker (nvidia.com/gpu short by 8)"),
		},
	})
}

// linkedJob has workers that want NVLink between their GPUs.
func linkedJob(name string, replicas int32, gpus int64) *kubeflowv1.TFJob {
	return annotated(job(name, workers(replicas, gpus)), tuttiapi.GPULinkAnnotation, "nvlink")
}

// pinned is a pod in no gang on a node of the test's choice.
func pinned(name, node string, gpus int64) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: podSpec("", gpus)}
	pod.Spec.NodeName = node
	return pod
}

// publish makes the NodeTopology of a node with this machine's GPUs, all of them
// free, and takes it away after the test.
func (s *scene) publish(machine, node string) func(context.Context) error {
	return func(ctx context.Context) error {
		object, err := machines.Read("../../pkg/topology/testdata/hosts/"+machine, node)
		if err != nil {
			return err
		}
		topologies := s.tutti.TopologyV1alpha1().NodeTopologies()
		if _, err := topologies.Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return err
		}
		s.t.Cleanup(func() {
			if err := topologies.Delete(context.WithoutCancel(ctx), node, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				s.t.Error(err)
			}
		})
		return s.report(ctx, node, nil)
	}
}

// report says what pods hold, once the API server has each of them on the node and
// a second is over, as agents do.
func (s *scene) report(ctx context.Context, node string, given map[string][]int) error {
	for key := range given {
		name := key[len(s.namespace)+1:]
		err := s.plane.Eventually(ctx, patience, func(ctx context.Context) error {
			pod, err := s.plane.Client.CoreV1().Pods(s.namespace).Get(ctx, name, metav1.GetOptions{})
			if err == nil && (pod.Status.StartTime == nil || time.Since(pod.Status.StartTime.Time) < 2*time.Second) {
				err = fmt.Errorf("pod %s has not run for two seconds", name)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	object, err := s.tutti.TopologyV1alpha1().NodeTopologies().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return err
	}
	machines.Report(object, time.Now(), given)
	return s.writeStatus(ctx, object)
}

func (s *scene) writeStatus(ctx context.Context, object *v1alpha1.NodeTopology) error {
	_, err := s.tutti.TopologyV1alpha1().NodeTopologies().UpdateStatus(ctx, object, metav1.UpdateOptions{})
	return err
}

func (s *scene) deletePods(ctx context.Context, names ...string) error {
	for _, name := range names {
		if err := s.plane.Client.CoreV1().Pods(s.namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
			return err
		}
	}
	return nil
}

// on is true when all pods of the gang are on one of the nodes.
func (s *scene) on(gang string, nodes ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		pods, err := s.plane.Pods(ctx, s.namespace, gang)
		if err != nil {
			return err
		}
		for _, pod := range pods {
			if !slices.Contains(nodes, pod.Spec.NodeName) {
				return fmt.Errorf("pod %s is on %q, want one of %v", pod.Name, pod.Spec.NodeName, nodes)
			}
		}
		return nil
	}
}
