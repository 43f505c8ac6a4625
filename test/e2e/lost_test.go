// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// twice is a program whose worker-1 runs for ever at first and ends the next time;
// others end at once.
const twice = `import os, sys, time
mark = "/training/" + os.environ["HOSTNAME"]
again = os.path.exists(mark) or not mark.endswith("-1")
open(mark, "w").close()
print("RUN", flush=True)
if not again: time.sleep(3600)
`

// TestNodeThatNeverReturns: the pod on it is told to go and does not. A second of
// its rank might meet it, so the controller waits; told that such pods are dead
// after a while, it replaces the pod, and the job ends without the node.
func TestNodeThatNeverReturns(t *testing.T) {
	long(t)
	s := newScene(t)
	s.giveStorage()
	job := scripted("lost", twice, map[kubeflowv1.ReplicaType]int32{kubeflowv1.TFJobReplicaTypeWorker: 2})
	job.Spec.SuccessPolicy = new(kubeflowv1.SuccessPolicyAllWorkers)
	s.create(each(job, func(replicas *kubeflowv1.ReplicaSpec) {
		replicas.RestartPolicy = kubeflowv1.RestartPolicyOnFailure
		mountTraining(&replicas.Template.Spec)
		for _, taint := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
			replicas.Template.Spec.Tolerations = append(replicas.Template.Spec.Tolerations, corev1.Toleration{
				Key: taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(1)),
			})
		}
	}))
	s.await("lost-worker-1", "(?m)^RUN$", 1)
	s.eventually("worker-0 has succeeded", func(ctx context.Context) error {
		now, err := s.tutti.KubeflowV1().TFJobs(s.namespace).Get(ctx, "lost", metav1.GetOptions{})
		if err == nil && now.Status.ReplicaStatuses[kubeflowv1.TFJobReplicaTypeWorker].Succeeded != 1 {
			err = errors.New("it has not")
		}
		return err
	})
	pod := s.pod("lost-worker-1")
	node := pod.Spec.NodeName
	must(t, command(t.Context(), "", "docker", "kill", node))
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		must(t, command(ctx, "", "docker", "start", node))
		must(t, eventually(ctx, patience, s.readiness(node, true)))
	})
	s.eventually("the pod is told to go", func(ctx context.Context) error {
		now, err := s.client.CoreV1().Pods(s.namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err == nil && now.DeletionTimestamp == nil {
			err = errors.New("it is not")
		}
		return err
	})
	for end := time.Now().Add(watched); time.Now().Before(end); time.Sleep(pollInterval) {
		if now := s.pod(pod.Name); now.UID != pod.UID {
			t.Fatalf("pod %s is another, but the node may still run the old one", now.Name)
		}
	}

	s.controllerFlag("--force-delete-lost-pods-after=5s")
	s.await("lost-worker-1", "(?m)^RUN$", 2)
	if now := s.pod(pod.Name); now.Spec.NodeName == node {
		t.Errorf("the next pod is on %s, which is down", node)
	}
	s.ends("lost", kubeflowv1.JobSucceeded)
	must(t, s.readiness(node, false)(t.Context()))
	if runs := len(s.printed("lost-worker-0", "(?m)^RUN$")); runs != 1 {
		t.Errorf("worker-0, which had succeeded before, ran %d times", runs)
	}
	s.vanish("lost")
}

// controllerFlag gives the controller one more flag until the test ends.
func (s *scene) controllerFlag(flag string) {
	s.t.Helper()
	deployments := s.client.AppsV1().Deployments("tutti-system")
	before, err := deployments.Get(s.t.Context(), "tutti-controller", metav1.GetOptions{})
	must(s.t, err)
	args := before.Spec.Template.Spec.Containers[0].Args
	patch := func(ctx context.Context, change string) error {
		_, err := deployments.Patch(ctx, "tutti-controller", types.JSONPatchType, []byte("["+change+"]"), metav1.PatchOptions{})
		return err
	}
	must(s.t, patch(s.t.Context(), fmt.Sprintf(`{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":%q}`, flag)))
	s.t.Cleanup(func() {
		must(s.t, patch(context.WithoutCancel(s.t.Context()), fmt.Sprintf(`{"op":"remove","path":"/spec/template/spec/containers/0/args/%d"}`, len(args))))
	})
}
