// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/tutti-project/tutti/pkg/clusterview/machines"
	"github.com/tutti-project/tutti/test/controlplane"
)

// machineOf are the nodes whose GPUs an agent has described: a rack of meshes, and
// one of machines with and without bridges.
func machineOf(i int) string {
	switch {
	case i < 8:
		return ""
	case i < 12:
		return "dgx-1v"
	case i < 14:
		return "a100-pcie-8"
	default:
		return "l40s-8"
	}
}

func nodeName(i int) string { return fmt.Sprintf("n%03d", i+1) }

func (w *world) describeMachines() {
	for i := range layout.Nodes() {
		if machine := machineOf(i); machine != "" {
			object, err := machines.Read("../../pkg/topology/testdata/hosts/"+machine, nodeName(i))
			must(w.t, err)
			_, err = w.tutti.TopologyV1alpha1().NodeTopologies().Create(w.t.Context(), object, metav1.CreateOptions{})
			must(w.t, err)
		}
	}
}

// change makes the next state: nodes open and close, come and go, and are known
// better or worse; pods by hand come and go; gangs end, more of them in a full cluster.
func (w *world) change() {
	w.state++
	used := w.used()
	full := float64(used) / float64(layout.Nodes()*layout.GPUsPerNode)
	for len(w.gangs) > 0 && w.random.Float64() < full*full {
		w.endGang(w.random.IntN(len(w.gangs)))
		full -= 0.15
	}
	for range w.random.IntN(3) {
		switch node := w.random.IntN(layout.Nodes()); w.random.IntN(7) {
		case 0, 1:
			w.patchNode(node, fmt.Sprintf(`{"spec":{"unschedulable":%t}}`, w.random.IntN(3) == 0))
		case 2:
			taints := "[]"
			if w.random.IntN(3) == 0 {
				taints = `[{"key":"example.com/maintenance","effect":"NoSchedule"}]`
			}
			w.patchNode(node, `{"spec":{"taints":`+taints+`}}`)
		case 3, 4:
			w.holdByHand(node)
		case 5:
			if len(w.singles) > 0 {
				w.endSingle(w.random.IntN(len(w.singles)))
			}
		case 6:
			w.replaceNode(node)
		}
	}
	w.report()
}

func (w *world) patchNode(node int, patch string) {
	_, err := w.plane.Client.CoreV1().Nodes().Patch(w.t.Context(), nodeName(node), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	must(w.t, err)
}

func (w *world) pods(selector metav1.ListOptions) []corev1.Pod {
	list, err := w.plane.Client.CoreV1().Pods(w.namespace).List(w.t.Context(), selector)
	must(w.t, err)
	return list.Items
}

// used is how many GPUs are.
func (w *world) used() int64 {
	n := int64(0)
	for _, pod := range w.pods(metav1.ListOptions{}) {
		if pod.Spec.NodeName != "" {
			n += gpusOf(&pod)
		}
	}
	return n
}

func gpusOf(pod *corev1.Pod) int64 {
	quantity := pod.Spec.Containers[0].Resources.Limits[controlplane.GPU]
	return quantity.Value()
}

// replaceNode takes an empty node away and brings one of another size in its place.
func (w *world) replaceNode(i int) {
	if len(w.pods(metav1.ListOptions{FieldSelector: "spec.nodeName=" + nodeName(i)})) > 0 || machineOf(i) != "" {
		return
	}
	must(w.t, w.plane.Client.CoreV1().Nodes().Delete(w.t.Context(), nodeName(i), metav1.DeleteOptions{}))
	sized := layout
	sized.GPUsPerNode = 4 + 4*w.random.IntN(2)
	_, err := w.plane.Client.CoreV1().Nodes().Create(w.t.Context(), sized.Node(i), metav1.CreateOptions{})
	must(w.t, err)
}

// holdByHand puts a pod on the node, if it has room.
func (w *world) holdByHand(i int) {
	node, err := w.plane.Client.CoreV1().Nodes().Get(w.t.Context(), nodeName(i), metav1.GetOptions{})
	must(w.t, err)
	allocatable := node.Status.Allocatable[controlplane.GPU]
	free := allocatable.Value()
	for _, pod := range w.pods(metav1.ListOptions{FieldSelector: "spec.nodeName=" + nodeName(i)}) {
		free -= gpusOf(&pod)
	}
	if free <= 0 {
		return
	}
	pod := podOf(fmt.Sprintf("single-%d-%d", w.state, len(w.singles)), 1+w.random.Int64N(free))
	pod.Spec.NodeName = nodeName(i)
	if w.one(4) {
		pod.Spec.PriorityClassName = high
	}
	_, err = w.plane.Client.CoreV1().Pods(w.namespace).Create(w.t.Context(), pod, metav1.CreateOptions{})
	must(w.t, err)
	w.singles = append(w.singles, pod.Name)
	w.eventually("the pod runs", func(ctx context.Context) error {
		pod, err := w.plane.Client.CoreV1().Pods(w.namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err == nil && pod.Status.StartTime == nil {
			err = fmt.Errorf("pod %s has not started", pod.Name)
		}
		return err
	})
}

func (w *world) endSingle(i int) {
	w.remove(w.singles[i])
	w.singles = slices.Delete(w.singles, i, i+1)
}

// remove deletes pods and waits until they are gone.
func (w *world) remove(names ...string) {
	for _, name := range names {
		err := w.plane.Client.CoreV1().Pods(w.namespace).Delete(w.t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
		if err != nil && !apierrors.IsNotFound(err) {
			w.t.Fatal(err)
		}
	}
	w.eventually("pods go", func(ctx context.Context) error {
		list, err := w.plane.Client.CoreV1().Pods(w.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, pod := range list.Items {
			if slices.Contains(names, pod.Name) {
				return fmt.Errorf("pod %s is there", pod.Name)
			}
		}
		return nil
	})
}

// endGang takes the group away before its pods, so that what is left of them never
// looks like a gang that lost some.
func (w *world) endGang(i int) {
	w.removeGang(w.gangs[i])
	w.gangs = slices.Delete(w.gangs, i, i+1)
}

func (w *world) removeGang(name string) {
	err := w.groups.SchedulingV1alpha1().PodGroups(w.namespace).Delete(w.t.Context(), name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
	var names []string
	for _, pod := range w.pods(metav1.ListOptions{LabelSelector: v1alpha1.PodGroupLabel + "=" + name}) {
		names = append(names, pod.Name)
	}
	w.remove(names...)
}

// report writes what agents would: which GPUs the pods of a node have, of those that
// a device plugin may have given them.
func (w *world) report() {
	on := map[string][]corev1.Pod{}
	for _, pod := range w.pods(metav1.ListOptions{}) {
		on[pod.Spec.NodeName] = append(on[pod.Spec.NodeName], pod)
	}
	for i := range layout.Nodes() {
		if machineOf(i) == "" || w.random.IntN(8) == 0 { // one in eight has not looked yet
			continue
		}
		object, err := w.tutti.TopologyV1alpha1().NodeTopologies().Get(w.t.Context(), nodeName(i), metav1.GetOptions{})
		must(w.t, err)
		order := w.random.Perm(len(object.Spec.GPUs))
		given := map[string][]int{}
		for _, pod := range on[nodeName(i)] {
			n := min(int(gpusOf(&pod)), len(order))
			given[w.namespace+"/"+pod.Name], order = order[:n], order[n:]
		}
		machines.Report(object, time.Now(), given)
		_, err = w.tutti.TopologyV1alpha1().NodeTopologies().UpdateStatus(w.t.Context(), object, metav1.UpdateOptions{})
		must(w.t, err)
	}
}

func podOf(name string, gpus int64) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/train:1", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}, Limits: corev1.ResourceList{},
		}}}},
	}
	if gpus > 0 {
		pod.Spec.Containers[0].Resources.Limits[controlplane.GPU] = *resource.NewQuantity(gpus, resource.DecimalSI)
	}
	return pod
}
