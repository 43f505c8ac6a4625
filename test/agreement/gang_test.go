// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	tuttiapi "github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/test/controlplane"
)

// gang is one that is to be decided.
type gang struct {
	group *v1alpha1.PodGroup
	pods  []*corev1.Pod
}

// one tells whether something that is so once in n times is.
func (w *world) one(n int) bool { return w.random.IntN(n) == 0 }

func pick[T any](w *world, of ...T) T { return of[w.random.IntN(len(of))] }

// newGang is a random gang: of one or two roles, whole or elastic, of any priority,
// with the wishes that there are.
func (w *world) newGang() gang {
	name := fmt.Sprintf("g%d", w.state)
	annotations := map[string]string{}
	g := gang{group: &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.namespace, Annotations: annotations}}}
	shape := w.shapeOf(name)
	workers, gpus := 1+w.random.IntN(1+w.random.IntN(9)), pick[int64](w, 1, 2, 2, 3, 4, 4, 8, 8)
	servers := 0
	if w.one(3) {
		servers = 1 + w.random.IntN(2)
	}
	for i := range servers {
		g.add("ps", i, 0, shape)
	}
	for i := range workers {
		g.add("worker", i, gpus, shape)
	}
	g.group.Spec.MinMember = int32(len(g.pods))
	if w.one(3) {
		g.group.Spec.MinMember = int32(1 + w.random.IntN(len(g.pods)))
		if least := 1 + w.random.IntN(workers); w.one(3) && least+min(servers, 1) <= int(g.group.Spec.MinMember) {
			annotations[tuttiapi.RoleMinimumsAnnotation] = fmt.Sprintf("worker=%d", least)
		}
	}
	switch w.random.IntN(7) {
	case 0, 1:
		annotations[tuttiapi.RequiredTopologyAnnotation] = pick(w, "rack", "rack", "spine", "host")
	case 2:
		annotations[tuttiapi.PreferredTopologyAnnotation] = pick(w, "rack", "spine")
	case 3:
		annotations[tuttiapi.SliceSizeAnnotation], annotations[tuttiapi.SliceTopologyAnnotation] = pick(w, "2", "3"), pick(w, "rack", "host")
	}
	if linked := w.one(6); linked || w.one(3) {
		annotations[tuttiapi.UniformGPUsAnnotation] = "false"
		if linked {
			annotations[tuttiapi.GPULinkAnnotation] = pick(w, "nvlink", "nvlink", "numa", "pcie")
		}
	}
	if w.one(40) {
		annotations[tuttiapi.RequiredTopologyAnnotation] = "room" // there is no such level
	}
	return g
}

// shapeOf is what the pods of a gang have in common.
func (w *world) shapeOf(name string) func(*corev1.Pod) {
	class := pick(w, "", "", "", high, high, polite)
	rack := fmt.Sprintf("r%d", 1+w.random.IntN(layout.Spines*layout.RacksPerSpine))
	selects, tolerates, apart := w.one(8), w.one(8), w.one(12)
	return func(pod *corev1.Pod) {
		pod.Spec.PriorityClassName = class
		if selects {
			pod.Spec.NodeSelector = map[string]string{controlplane.RackLabel: rack}
		}
		if tolerates {
			pod.Spec.Tolerations = []corev1.Toleration{{Key: "example.com/maintenance", Operator: corev1.TolerationOpExists}}
		}
		if apart {
			pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
					TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.PodGroupLabel: name}},
				}},
			}}
		}
	}
}

func (g *gang) add(role string, rank int, gpus int64, shape func(*corev1.Pod)) {
	pod := podOf(fmt.Sprintf("%s-%s-%d", g.group.Name, role, rank), gpus)
	pod.Labels = map[string]string{
		v1alpha1.PodGroupLabel: g.group.Name, kubeflowv1.ReplicaTypeLabel: role, kubeflowv1.ReplicaIndexLabel: fmt.Sprint(rank),
	}
	pod.Spec.SchedulerName = tuttiapi.SchedulerName
	shape(pod)
	g.pods = append(g.pods, pod)
}

// lacks tells whether fewer of its pods have nodes than it needs.
func (g *gang) lacks(on map[string]string) bool {
	n := 0
	for _, pod := range g.pods {
		if on[pod.Name] != "" {
			n++
		}
	}
	return n < int(g.group.Spec.MinMember)
}

func (g *gang) String() string {
	last := g.pods[len(g.pods)-1]
	var wishes []string
	for _, key := range slices.Sorted(maps.Keys(g.group.Annotations)) {
		wishes = append(wishes, key+"="+g.group.Annotations[key])
	}
	return fmt.Sprintf("gang %s of %d pods, at least %d, of %d GPUs, class %q, selector %v, %d tolerations, apart %t, %v", g.group.Name, len(g.pods),
		g.group.Spec.MinMember, gpusOf(last), last.Spec.PriorityClassName, last.Spec.NodeSelector, len(last.Spec.Tolerations), last.Spec.Affinity != nil, wishes)
}
