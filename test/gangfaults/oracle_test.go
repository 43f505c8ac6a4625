// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangfaults

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	"github.com/tutti-project/tutti/test/controlplane"
)

// scene is the world's nodes and pods at one moment.
type scene struct {
	rack map[string]string // of each open node
	// held is how many GPUs pods of each priority hold on a node.
	held map[string]map[bool]int64 // [node][important]
	pods map[string][]corev1.Pod   // [gang]
}

func (r *run) look(ctx context.Context) (*scene, error) {
	s := &scene{rack: map[string]string{}, held: map[string]map[bool]int64{}, pods: map[string][]corev1.Pod{}}
	nodes, err := r.plane.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: fmt.Sprintf("%s=s%d", controlplane.SpineLabel, r.world+1)})
	if err != nil {
		return nil, err
	}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		s.held[node.Name] = map[bool]int64{}
		if !node.Spec.Unschedulable {
			s.rack[node.Name] = node.Labels[controlplane.RackLabel]
		}
	}
	pods, err := r.plane.Client.CoreV1().Pods(r.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		name := pod.Labels[kubeflowv1.JobNameLabel]
		s.pods[name] = append(s.pods[name], *pod)
		if held := s.held[pod.Spec.NodeName]; held != nil {
			held[pod.Spec.PriorityClassName == important] += gpusOf(pod)
		}
	}
	return s, nil
}

// settles waits until nothing is left to do: every gang that fits runs, and
// none is in part where it need not be.
func (r *run) settles(ctx context.Context, counts *counts) error {
	torn := 0
	err := r.until(ctx, func(ctx context.Context) error {
		s, err := r.look(ctx)
		if err != nil {
			return err
		}
		torn = 0
		var open []string
		for _, name := range slices.Sorted(maps.Keys(r.gangs)) {
			g := r.gangs[name]
			why, lacks := r.open(s, g)
			if why != "" {
				open = append(open, why)
			}
			if lacks {
				torn++
			}
		}
		if len(open) > 0 {
			return fmt.Errorf("%s\n%s", strings.Join(open, "\n"), s)
		}
		return nil
	})
	counts.torn.Add(int64(torn))
	return err
}

// runningOf counts the pods that have nodes; within is the rack of one of them,
// and going a pod that is being deleted.
func (r *run) runningOf(pods []corev1.Pod) (running int, within, going string) {
	for _, pod := range pods {
		if pod.DeletionTimestamp != nil {
			return 0, "", pod.Name
		}
		if node := pod.Spec.NodeName; node != "" {
			running++
			within = r.rackOf(node)
		}
	}
	return running, within, ""
}

// open says what is still to do for the gang, and whether it has lost pods and
// finds no room for them.
func (r *run) open(s *scene, g *gang) (why string, lacks bool) {
	pods := s.pods[g.name]
	if g.deleted {
		if len(pods) > 0 {
			return fmt.Sprintf("%s was deleted and has %d pods", g.name, len(pods)), false
		}
		return "", false
	}
	if len(pods) != g.pods {
		return fmt.Sprintf("%s has %d pods, want %d", g.name, len(pods), g.pods), false
	}
	running, within, going := r.runningOf(pods)
	if going != "" {
		return fmt.Sprintf("pod %s is going", going), false
	}
	if !g.rack {
		within = ""
	}
	switch missing := g.minimum - running; {
	case running == g.pods:
	case missing > 0 && s.room(g, within, true) >= missing:
		return fmt.Sprintf("%s has %d of at least %d pods running, and there is room", g.name, running, g.minimum), false
	case missing > 0 && running > 0:
		if r.quiet {
			return fmt.Sprintf("%s is torn: %d of at least %d pods run", g.name, running, g.minimum), false
		}
		return "", true
	case missing <= 0 && s.room(g, within, false) > 0:
		return fmt.Sprintf("%s has %d of %d pods running, and there is room for one more", g.name, running, g.pods), false
	}
	return "", false
}

// rackOf is a node's, by its number: the node may be cordoned.
func (r *run) rackOf(node string) string {
	var number int
	if _, err := fmt.Sscanf(node, "n%d", &number); err != nil {
		return ""
	}
	return fmt.Sprintf("r%d", (number-1)/nodesPerRack+1)
}

// room is for how many pods of the gang, in one rack if it wants that, in this
// one if it is named, with less important gangs evicted or not.
func (s *scene) room(g *gang, within string, evicting bool) int {
	slots := map[string]int{}
	for node, rack := range s.rack {
		free := gpusPerNode - s.held[node][true]
		if !evicting || !g.important {
			free -= s.held[node][false]
		}
		domain := ""
		if g.rack {
			domain = rack
		}
		slots[domain] += int(max(0, free) / g.gpus)
	}
	if within != "" {
		return slots[within]
	}
	most := 0
	for _, n := range slots {
		most = max(most, n)
	}
	return most
}

func (s *scene) String() string {
	var lines []string
	for _, node := range slices.Sorted(maps.Keys(s.held)) {
		state := ""
		if _, open := s.rack[node]; !open {
			state = ", cordoned"
		}
		lines = append(lines, fmt.Sprintf("%s: %d held by important pods, %d by others%s", node, s.held[node][true], s.held[node][false], state))
	}
	return strings.Join(lines, "\n")
}

func gpusOf(pod *corev1.Pod) int64 {
	n := int64(0)
	for i := range pod.Spec.Containers {
		quantity := pod.Spec.Containers[i].Resources.Limits[controlplane.GPU]
		n += quantity.Value()
	}
	return n
}
