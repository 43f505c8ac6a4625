// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// TestDrainedNode: `kubectl drain` takes a node from a training job. What was there
// comes up on another and goes on from the checkpoint.
func TestDrainedNode(t *testing.T) {
	long(t)
	s := newScene(t)
	s.giveStorage()
	job := example(t, "parameter-server", slow...)
	s.create(job)
	s.await(job.Name+"-worker-0", `(?m)^step=`, 2)
	s.await(job.Name+"-worker-1", started, 1)
	node := s.pod(job.Name + "-worker-1").Spec.NodeName
	t.Cleanup(func() { must(t, command(context.WithoutCancel(t.Context()), "", "kubectl", "uncordon", node)) })
	must(t, command(t.Context(), "", "kubectl", "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--grace-period=2", "--timeout=120s"))
	s.resumed(job.Name + "-worker-1")
	for _, replica := range []string{"ps-0", "ps-1", "worker-0", "worker-1"} {
		if now := s.pod(job.Name + "-" + replica); now.Spec.NodeName == node {
			t.Errorf("pod %s is on %s, which was drained", now.Name, node)
		}
	}
	s.ends(job.Name, kubeflowv1.JobSucceeded)
	s.trained(job.Name+"-worker-0", 600)
	s.vanish(job.Name)
}

// TestPreemptedGangLeavesGracefully: a gang that is preempted saves its work for
// some seconds. Only then pods of the other are bound there; afterwards the first
// comes back whole.
func TestPreemptedGangLeavesGracefully(t *testing.T) {
	long(t)
	s := newScene(t)
	s.giveStorage()
	const saving = `import os, signal, sys, time
mark = "/training/" + os.environ["HOSTNAME"]
def save(*_):
    print("TERM", flush=True)
    time.sleep(5)
    open(mark, "w").close()
    print("SAVED", flush=True)
    sys.exit(143)
signal.signal(signal.SIGTERM, save)
print("RUN", os.path.exists(mark), flush=True)
time.sleep(2 if os.path.exists(mark) else 3600)
`
	high := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}, Value: 1000}
	_, err := s.client.SchedulingV1().PriorityClasses().Create(t.Context(), high, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		must(t, s.client.SchedulingV1().PriorityClasses().Delete(context.WithoutCancel(t.Context()), high.Name, metav1.DeleteOptions{}))
	})
	s.create(each(gpuGang("low", saving, 3, 8), func(replicas *kubeflowv1.ReplicaSpec) {
		replicas.RestartPolicy = kubeflowv1.RestartPolicyOnFailure
		replicas.Template.Spec.TerminationGracePeriodSeconds = new(int64(60))
		mountTraining(&replicas.Template.Spec)
	}))
	low := withJob("low", []string{"worker-0", "worker-1", "worker-2"})
	before := map[string]string{} // by node
	for _, pod := range low {
		s.await(pod, "(?m)^RUN False$", 1)
		before[s.pod(pod).Spec.NodeName] = pod
	}
	s.create(each(gpuGang("high", "import time; time.sleep(2)", 2, 8), func(replicas *kubeflowv1.ReplicaSpec) {
		replicas.Template.Spec.PriorityClassName = high.Name
	}))
	saved := map[string]time.Time{}
	s.eventually("all pods of the low one have saved", func(context.Context) error {
		for _, pod := range low {
			if _, ok := saved[pod]; !ok && len(s.printed(pod, "(?m)^SAVED$")) > 0 {
				saved[pod] = time.Now()
			}
		}
		if len(saved) < len(low) {
			return fmt.Errorf("%d of %d have", len(saved), len(low))
		}
		return nil
	})
	s.ends("high", kubeflowv1.JobSucceeded)
	pods, err := s.gang(t.Context(), "high", 2)
	must(t, err)
	for _, pod := range pods {
		// The API server keeps whole seconds, and logs are read a moment later.
		if bound, when := boundAt(&pod), saved[before[pod.Spec.NodeName]]; bound.Add(time.Second + 5*pollInterval).Before(when) {
			t.Errorf("pod %s was bound to %s at %s, where one saved until %s", pod.Name, pod.Spec.NodeName, bound, when)
		}
	}
	for _, pod := range low {
		s.await(pod, "(?m)^RUN True$", 1)
	}
	s.ends("low", kubeflowv1.JobSucceeded)
	s.vanish("low", "high")
}
