// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	tuttiapi "github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/test/controlplane"
)

func TestGangIsBoundTogetherInOneRack(t *testing.T) {
	s := newScene(t, shared)
	s.run([]step{
		{
			name: "a job with 2 PS and 4 workers of 8 GPUs",
			do: func(ctx context.Context) error {
				return s.createJob(ctx, job("train", ps(2), workers(4, 8)))
			},
			check: s.bound("train", 6),
		},
		{name: "all in one rack", check: s.racks("train", 1)},
		{name: "the verdict", check: all(
			s.condition("train", metav1.ConditionTrue, tuttiapi.GangPlacedReason),
			s.event("train", "GangPlaced"),
		)},
		{name: "the pods run", check: s.running("train", 6)},
		{name: "TF_CONFIG", check: s.tfConfigs("train")},
		{name: "services came first", check: s.servicesBeforePods},
	})
	s.expectWhole(t, "train", 6)
}

func TestGangTooBigIsPendingWhole(t *testing.T) {
	s := newScene(t, shared)
	s.run([]step{
		{
			name: "a job with more workers than the cluster has nodes",
			do: func(ctx context.Context) error {
				return s.createJob(ctx, job("big", ps(1), workers(70, 8)))
			},
			check: s.refused("big", 71, "worker", "64 of 70"),
		},
		{name: "the event says the same", check: s.event("big", "FailedScheduling", "worker", "64 of 70")},
		{name: "its pods are marked for autoscalers", check: s.unschedulable("big")},
		{
			name: "a job behind it",
			do: func(ctx context.Context) error {
				return s.createJob(ctx, job("small", ps(1), workers(2, 8)))
			},
			check: s.bound("small", 3),
		},
		{name: "the big one still holds nothing", check: s.refused("big", 71, "worker")},
	})
	s.expectWhole(t, "small", 3)
	if since, any := s.boundSince("big"); any {
		t.Errorf("a pod of the big gang was bound at %s", since)
	}
}

// A rack has 8 nodes, so 9 workers of a whole node each need two.
func TestRequiredRackIsKeptAndPreferredRackGivesWay(t *testing.T) {
	s := newScene(t, shared)
	s.run([]step{
		{
			name: "9 whole nodes, required in one rack",
			do: func(ctx context.Context) error {
				return s.createJob(ctx, annotated(job("required", workers(9, 8)), tuttiapi.RequiredTopologyAnnotation, "rack"))
			},
			check: s.refused("required", 9, "worker", "8 of 9", "rack"),
		},
		{
			name: "the same, preferred",
			do: func(ctx context.Context) error {
				return s.createJob(ctx, annotated(job("preferred", workers(9, 8)), tuttiapi.PreferredTopologyAnnotation, "rack"))
			},
			check: s.bound("preferred", 9),
		},
		{name: "in the fewest racks", check: s.racks("preferred", 2)},
		{name: "the required one still waits", check: s.refused("required", 9)},
	})
	s.expectWhole(t, "preferred", 9)
	if since, any := s.boundSince("required"); any {
		t.Errorf("a pod of the refused gang was bound at %s", since)
	}
}

// running is true when just so many pods of the gang are in phase Running.
func (s *scene) running(gang string, size int) func(context.Context) error {
	return func(ctx context.Context) error {
		pods, err := s.plane.Pods(ctx, s.namespace, gang)
		if err != nil {
			return err
		}
		running := 0
		for _, pod := range pods {
			if pod.Status.Phase == corev1.PodRunning {
				running++
			}
		}
		if running != size {
			return fmt.Errorf("%d pods of %s are running, want %d", running, gang, size)
		}
		return nil
	}
}

// unschedulable is true when all pods of the gang say so.
func (s *scene) unschedulable(gang string) func(context.Context) error {
	return func(ctx context.Context) error {
		pods, err := s.plane.Pods(ctx, s.namespace, gang)
		if err != nil {
			return err
		}
		for _, pod := range pods {
			if !markedUnschedulable(&pod) {
				return fmt.Errorf("pod %s lacks PodScheduled=False/Unschedulable: %v", pod.Name, pod.Status.Conditions)
			}
		}
		return nil
	}
}

func markedUnschedulable(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
		}
	}
	return false
}

// tfConfigs compares TF_CONFIG of every pod of a gang with the file
// testdata/<gang>/<pod>.json, in which NAMESPACE stands for the test's own.
func (s *scene) tfConfigs(gang string) func(context.Context) error {
	return func(ctx context.Context) error {
		pods, err := s.plane.Pods(ctx, s.namespace, gang)
		if err != nil {
			return err
		}
		want, err := s.goldens(gang)
		if err != nil {
			return err
		}
		got := map[string]string{}
		for _, pod := range pods {
			got[pod.Name] = controlplane.TFConfig(&pod)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("TF_CONFIG by pod (-want +got):\n%s", diff)
		}
		return nil
	}
}

func (s *scene) goldens(gang string) (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join("testdata", gang, "*.json"))
	if err != nil {
		return nil, err
	}
	byPod := map[string]string{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		golden := strings.ReplaceAll(strings.TrimSpace(string(data)), "NAMESPACE", s.namespace)
		byPod[strings.TrimSuffix(filepath.Base(file), ".json")] = golden
	}
	return byPod, nil
}

// servicesBeforePods is true when every pod has a service of its name and the
// last service was made before the first pod: the API server numbers all writes
// in one order.
func (s *scene) servicesBeforePods(ctx context.Context) error {
	services, err := s.plane.Client.CoreV1().Services(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	firstPod, pods := s.firstCreation()
	if len(services.Items) != pods {
		return fmt.Errorf("%d services for %d pods", len(services.Items), pods)
	}
	for _, service := range services.Items {
		// Nothing updates a service, so this is still its creation.
		version, err := strconv.ParseUint(service.ResourceVersion, 10, 64)
		if err != nil {
			return err
		}
		if version >= firstPod {
			return fmt.Errorf("service %s was made at %d, the first pod at %d", service.Name, version, firstPod)
		}
	}
	return nil
}
