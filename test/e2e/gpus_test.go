// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// TestGPUsOfAKubelet: a container gets a pair of GPUs that its node's topology
// prefers, and a node with unhealthy GPUs offers fewer.
func TestGPUsOfAKubelet(t *testing.T) {
	long(t)
	s := newScene(t)
	for _, node := range workers {
		s.eventually("8 GPUs on "+node, s.allocatable(node, 8))
	}
	// The mesh of tutti-worker2: pairs of two links; the bridges of tutti-worker3.
	pairs := map[string][]string{
		"tutti-worker2": {"0 3", "0 4", "1 2", "1 5", "2 3", "4 7", "5 6", "6 7"},
		"tutti-worker3": {"0 2", "1 3", "4 5", "6 7"},
	}
	for node, want := range pairs {
		job := gpuGang(node, `import os; print("GPUs", os.environ["NVIDIA_VISIBLE_DEVICES"])`, 1, 2)
		s.create(each(job, func(replicas *kubeflowv1.ReplicaSpec) {
			replicas.Template.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
		}))
		devices := strings.Split(strings.ReplaceAll(s.await(node+"-worker-0", "(?m)^GPUs (.*)$", 1)[1], "GPU-"+node+"-", ""), ",")
		slices.Sort(devices)
		if got := strings.Join(devices, " "); !slices.Contains(want, got) {
			t.Errorf("a container on %s got the GPUs %s, want one pair of %q", node, got, want)
		}
		s.ends(job.Name, kubeflowv1.JobSucceeded)
	}

	node, file := workers[0], "/var/lib/kubelet/device-plugins/gpusim.unhealthy"
	must(t, command(t.Context(), "0 5", "docker", "exec", "-i", node, "tee", file))
	heal := func(ctx context.Context) error { return command(ctx, "", "docker", "exec", node, "rm", "-f", file) }
	t.Cleanup(func() {
		if err := heal(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	s.eventually("6 healthy GPUs", s.allocatable(node, 6))
	whole := gpuGang("whole", `print("all")`, 1, 8)
	s.create(each(whole, func(replicas *kubeflowv1.ReplicaSpec) {
		replicas.Template.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	}))
	s.eventually("a pod that needs all GPUs waits", func(ctx context.Context) error {
		pods, err := s.gang(ctx, "whole", 1)
		if err == nil && unschedulable(&pods[0]) == "" {
			err = fmt.Errorf("pod %s is on %q", pods[0].Name, pods[0].Spec.NodeName)
		}
		return err
	})
	must(t, heal(t.Context()))
	s.ends("whole", kubeflowv1.JobSucceeded)
}

func (s *scene) allocatable(name string, want int64) func(context.Context) error {
	return func(ctx context.Context) error {
		node, err := s.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		gpus := node.Status.Allocatable["nvidia.com/gpu"]
		if gpus.Value() != want {
			return fmt.Errorf("node %s has %d GPUs, want %d", name, gpus.Value(), want)
		}
		return nil
	}
}
