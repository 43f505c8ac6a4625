// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	tuttiapi "github.com/tutti-project/tutti/pkg/apis/tutti"
)

// Nodes are of several kinds, and it does not matter to these gangs which they get.
var (
	nvlink   = map[string]string{tuttiapi.GPULinkAnnotation: "nvlink", tuttiapi.UniformGPUsAnnotation: "false"}
	numa     = map[string]string{tuttiapi.GPULinkAnnotation: "numa"}
	inDomain = map[string]string{tuttiapi.RequiredTopologyAnnotation: "nvlink-domain"}
	both     = map[string]string{tuttiapi.GPULinkAnnotation: "nvlink", tuttiapi.RequiredTopologyAnnotation: "nvlink-domain"}
)

func publishAll(t *testing.T) {
	t.Helper()
	must(t, stage.Publish(t.Context(), file(t, described(t)...)))
}

func TestWholeMachinesAreLinkedByMeshOrSwitchAndNotByPairs(t *testing.T) {
	publishAll(t)
	namespace := newNamespace(t)
	seven := ask{name: "seven", pods: 7, gpus: 8, annotations: nvlink}
	seven.create(t, namespace)
	seven.refused(t, namespace, "6 of 7")
	empty(t, t.Context(), namespace)

	six := ask{name: "six", pods: 6, gpus: 8, annotations: nvlink}
	six.create(t, namespace)
	if diff := cmp.Diff([]string{"h1", "h2", "h3", "v1", "v2", "v3"}, six.placed(t, namespace)); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
}

func TestACliqueTakesEighteenTraysAndNoMore(t *testing.T) {
	publishAll(t)
	namespace := newNamespace(t)
	nineteen := ask{name: "nineteen", pods: 19, gpus: 4, annotations: inDomain}
	nineteen.create(t, namespace)
	nineteen.refused(t, namespace, "nvlink-domain")
	empty(t, t.Context(), namespace)

	pin(t, namespace, "guest", "a07", 1) // now only the other rack is whole
	eighteen := ask{name: "eighteen", pods: 18, gpus: 4, annotations: both}
	eighteen.create(t, namespace)
	for _, node := range eighteen.placed(t, namespace) {
		if !strings.HasPrefix(node, "b") {
			t.Errorf("a pod is on %s", node)
		}
	}
	// What is left of the other: 17 trays, and three GPUs of one.
	rest := ask{name: "rest", pods: 17, gpus: 4, annotations: both}
	rest.create(t, namespace)
	for _, node := range rest.placed(t, namespace) {
		if !strings.HasPrefix(node, "a") || node == "a07" {
			t.Errorf("a pod is on %s", node)
		}
	}
}

func TestPairsThatSinglePodsHaveBroken(t *testing.T) {
	publishAll(t)
	namespace := newNamespace(t)
	pair := ask{name: "pair", pods: 1, gpus: 2, machine: "a100-pcie-8", annotations: nvlink}
	pair.create(t, namespace)
	pair.refused(t, namespace, "the device plugin may pick 2 of the free GPUs on p1 that are not NVLink-connected")

	// Pairs are 0-2, 1-3, 4-5 and 6-7. Everything but one half of two of them is held.
	for _, node := range []string{"p1", "p2", "p3"} {
		pin(t, namespace, node+"-a", node, 1)
		pin(t, namespace, node+"-b", node, 5)
		publish(t, namespace, node, map[string][]int{node + "-a": {0}, node + "-b": {3, 4, 5, 6, 7}})
	}
	pair.refused(t, namespace, "2 free GPUs on p1 are not NVLink-connected")

	// One of the singles goes, and another comes that gets the other pair's half: 1 goes, 2 stays with 0.
	must(t, stage.Client.CoreV1().Pods(namespace).Delete(t.Context(), "p2-a", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	eventually(t, "the single goes", func(ctx context.Context) error {
		if _, err := stage.Client.CoreV1().Pods(namespace).Get(ctx, "p2-a", metav1.GetOptions{}); err == nil {
			return errors.New("it is there")
		}
		return nil
	})
	pin(t, namespace, "p2-c", "p2", 1)
	publish(t, namespace, "p2", map[string][]int{"p2-c": {1}, "p2-b": {3, 4, 5, 6, 7}})
	if got := pair.placed(t, namespace); got[0] != "p2" {
		t.Errorf("the pair is on %v", got)
	}
}

// TestSinglesGoWherePairsAreBroken: case 63.
func TestSinglesGoWherePairsAreBroken(t *testing.T) {
	publishAll(t)
	namespace := newNamespace(t)
	pin(t, namespace, "first", "p2", 1)
	publish(t, namespace, "p2", map[string][]int{"first": {4}})
	single := ask{name: "single", pods: 1, gpus: 1, machine: "a100-pcie-8"}
	single.create(t, namespace)
	if got := single.placed(t, namespace); got[0] != "p2" {
		t.Errorf("the second single is on %v", got)
	}
}

// TestFreeGPUsOfTwoBoardsAreNotOne: case 64, on a mesh of two quads.
func TestFreeGPUsOfTwoBoardsAreNotOne(t *testing.T) {
	publishAll(t)
	namespace := newNamespace(t)
	for i, held := range [][]int{{0, 1, 2, 4}, {0, 4, 5, 6}, {4, 5, 6, 7}} {
		node := fmt.Sprintf("v%d", i+1)
		pin(t, namespace, node+"-x", node, 4)
		publish(t, namespace, node, map[string][]int{node + "-x": held})
	}
	four := ask{name: "four", pods: 1, gpus: 4, machine: "dgx-1v", annotations: nvlink}
	four.create(t, namespace)
	if got := four.placed(t, namespace); got[0] != "v3" {
		t.Errorf("it is on %v", got)
	}
}

// TestWhatFitsTheSumAndNoSocketIsRefused is case 61: four GPUs are free on each node, two at
// either socket. The pod waits for four at one, where a kubelet that holds pods to one NUMA node
// would have failed it again and again.
func TestWhatFitsTheSumAndNoSocketIsRefused(t *testing.T) {
	publishAll(t)
	namespace := newNamespace(t)
	for _, node := range []string{"l1", "l2"} {
		pin(t, namespace, node+"-x", node, 4)
		publish(t, namespace, node, map[string][]int{node + "-x": {0, 1, 6, 7}})
	}
	four := ask{name: "four", pods: 1, gpus: 4, machine: "l40s-8", annotations: numa}
	four.create(t, namespace)
	four.refused(t, namespace, "0 of 1", "4 free GPUs on l1 are not connected by numa")
	other := ask{name: "other", pods: 1, gpus: 4, machine: "l40s-8"}
	other.create(t, namespace) // it does not mind
	on := other.placed(t, namespace)[0]
	pins := map[string]string{"l1": "l2", "l2": "l1"}
	left := pins[on]

	must(t, stage.Client.CoreV1().Pods(namespace).Delete(t.Context(), left+"-x", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	eventually(t, "the pod goes", func(ctx context.Context) error {
		if _, err := stage.Client.CoreV1().Pods(namespace).Get(ctx, left+"-x", metav1.GetOptions{}); err == nil {
			return errors.New("it is there")
		}
		return nil
	})
	four.refused(t, namespace, "the device plugin may pick 4 of the free GPUs on "+left) // of eight, any
	pin(t, namespace, left+"-y", left, 4)
	publish(t, namespace, left, map[string][]int{left + "-y": {0, 1, 2, 3}})
	if got := four.placed(t, namespace); got[0] != left {
		t.Errorf("it is on %v, want %s, where a whole socket is free", got, left)
	}
}

// TestSmallPodsLeaveASocketWhole is case 62: single pods of one and of two GPUs go to the node
// whose sockets are in use already, though the other one is fuller, and a pod of four finds a
// socket there that is whole.
func TestSmallPodsLeaveASocketWhole(t *testing.T) {
	publishAll(t)
	namespace := newNamespace(t)
	pin(t, namespace, "spread", "l1", 2)
	publish(t, namespace, "l1", map[string][]int{"spread": {0, 4}})
	pin(t, namespace, "packed", "l2", 4)
	publish(t, namespace, "l2", map[string][]int{"packed": {0, 1, 2, 3}})
	for i, gpus := range []int64{1, 2, 1} {
		small := podOf(fmt.Sprintf("small-%d", i), gpus)
		small.Spec.SchedulerName = tuttiapi.SchedulerName
		small.Spec.NodeSelector = map[string]string{machineLabel: "l40s-8"}
		_, err := stage.Client.CoreV1().Pods(namespace).Create(t.Context(), small, metav1.CreateOptions{})
		must(t, err)
		eventually(t, "the small pod is bound", func(ctx context.Context) error {
			pod, err := stage.Client.CoreV1().Pods(namespace).Get(ctx, small.Name, metav1.GetOptions{})
			if err == nil && pod.Spec.NodeName != "l1" {
				err = fmt.Errorf("pod %s of %d GPUs is on %q, want l1", small.Name, gpus, pod.Spec.NodeName)
			}
			return err
		})
	}
	four := ask{name: "four", pods: 1, gpus: 4, machine: "l40s-8", annotations: numa}
	four.create(t, namespace)
	if got := four.placed(t, namespace); got[0] != "l2" {
		t.Errorf("the pod of four GPUs is on %v, want l2", got)
	}
}

// TestANodeThatLostGPUsInUseTakesNobody: case 65.
func TestANodeThatLostGPUsInUseTakesNobody(t *testing.T) {
	publishAll(t)
	namespace := newNamespace(t)
	capacity := func(node, gpus string) {
		patch := fmt.Sprintf(`{"status":{"allocatable":{"nvidia.com/gpu":%q}}}`, gpus)
		_, err := stage.Client.CoreV1().Nodes().Patch(context.WithoutCancel(t.Context()), node, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
		must(t, err)
	}
	for _, node := range []string{"h1", "h2", "h3"} {
		pin(t, namespace, node+"-x", node, 8)
		capacity(node, "6")
		defer capacity(node, "8")
	}
	six := ask{name: "six", pods: 1, gpus: 6, machine: "hgx-h100"}
	six.create(t, namespace)
	six.refused(t, namespace, "0 of 1")
}

// TestAPromiseThatTheKubeletBreaksIsAnEvent: a pod was placed for a pair that was
// all there was, and got other GPUs.
func TestAPromiseThatTheKubeletBreaksIsAnEvent(t *testing.T) {
	publishAll(t)
	namespace := newNamespace(t)
	pin(t, namespace, "others", "p1", 6)
	publish(t, namespace, "p1", map[string][]int{"others": {0, 1, 2, 3, 4, 5}})
	pair := ask{name: "pair", pods: 1, gpus: 2, machine: "a100-pcie-8", annotations: nvlink}
	pair.create(t, namespace)
	if got := pair.placed(t, namespace); got[0] != "p1" {
		t.Fatalf("it is on %v", got)
	}
	publish(t, namespace, "p1", map[string][]int{"others": {0, 1, 2, 4, 6, 7}, "pair-0": {3, 5}})
	eventually(t, "the event", func(ctx context.Context) error {
		events, err := stage.Client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=pair-0,reason=GPULinkBroken"})
		if err == nil && (len(events.Items) != 1 || events.Items[0].Type != corev1.EventTypeWarning || !strings.Contains(events.Items[0].Message, "connected by nvlink")) {
			err = fmt.Errorf("events %+v", events.Items)
		}
		return err
	})
}
