// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

func goingSince(at time.Time) podOption {
	return func(pod *corev1.Pod) {
		pod.DeletionTimestamp = &metav1.Time{Time: at}
		pod.Spec.NodeName = "node-1"
	}
}

func node(ready corev1.ConditionStatus) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	return n
}

// B08: a pod whose deletion nobody carries out.
func TestB08APodOnALostNode(t *testing.T) {
	const stays, replaced = false, true
	const held corev1.PodPhase = "failed, and held by a finalizer"
	for name, tc := range map[string]struct {
		policy kubeflowv1.RestartPolicy
		after  time.Duration
		node   *corev1.Node
		phase  corev1.PodPhase
		event  string
		want   bool
	}{
		"by default the job is told":           {"OnFailure", 0, node(corev1.ConditionUnknown), running, "PodOnLostNode", stays},
		"the node is gone":                     {"OnFailure", 0, nil, running, "PodOnLostNode", stays},
		"the node answers, its kubelet hangs":  {"OnFailure", time.Minute, node(corev1.ConditionTrue), running, "PodNotDeleted", stays},
		"with the option the pod is replaced":  {"OnFailure", time.Minute, node(corev1.ConditionFalse), running, "SuccessfulDeletePod", replaced},
		"a pod that waited is replaced too":    {"ExitCode", time.Minute, nil, pending, "SuccessfulDeletePod", replaced},
		"under Never a pod is never run twice": {"Never", time.Minute, nil, running, "PodOnLostNode", stays},
		"not before its time":                  {"OnFailure", time.Hour, nil, running, "", stays},
		"one that has ended needs no kubelet":  {"OnFailure", time.Minute, nil, succeeded, "", stays},
		"a finalizer holds it, force or not":   {"OnFailure", time.Minute, nil, held, "PodNotDeleted", stays},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.controller.options.ForceDeleteLost = tc.after
			w.put(resJobs, makeJob(replicas(worker, 2, tc.policy), allWorkers))
			w.look()
			w.setPhase("j-worker-1", running)
			if tc.node != nil {
				w.objects["nodes"] = map[string]apiObject{"node-1": tc.node}
			}
			if tc.phase == held {
				w.setPhase("j-worker-0", failed, goingSince(w.clock), func(pod *corev1.Pod) { pod.Finalizers = []string{"example.com/keep"} })
			} else {
				w.setPhase("j-worker-0", tc.phase, goingSince(w.clock))
			}
			old := w.objects[resPods]["j-worker-0"].GetUID()
			w.look()
			w.events.lines = nil
			if w.after == 0 && tc.event != "" {
				t.Fatal("it is not looked at again")
			}
			w.clock = w.clock.Add(10 * time.Minute)
			for range 5 {
				w.look()
			}
			told := slices.DeleteFunc(slices.Clone(w.events.lines), func(line string) bool {
				return !strings.Contains(line, "j-worker-0") || strings.Contains(line, "Create")
			})
			var want []string
			if tc.event != "" {
				want = []string{tc.event}
			}
			for i, line := range told {
				told[i], _, _ = strings.Cut(line, ":")
			}
			if diff := cmp.Diff(want, told, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			now := w.objects[resPods]["j-worker-0"]
			if got := now == nil || now.GetUID() != old; got != tc.want {
				t.Errorf("replaced is %v", got)
			}
			if isFinished(&w.job().Status) {
				t.Errorf("conditions %v", describe(w.job().Status))
			}
		})
	}
}
