// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// B17: a job may say that a sidecar that runs on does not keep a replica from ending.
func TestB17TheMainContainersEndCanBeTheReplicas(t *testing.T) {
	byMain := annotated("tutti.dev/completion", "main-container")
	for name, tc := range map[string]struct {
		job  *kubeflowv1.TFJob
		opts []podOption
		want []string
	}{
		"by default the pod counts":       {makeJob(replicas(worker, 1)), []podOption{exited(0)}, []string{"Created", "Running"}},
		"it succeeded":                    {makeJob(replicas(worker, 1), byMain), []podOption{exited(0)}, []string{"Created", "Succeeded"}},
		"it failed":                       {makeJob(replicas(worker, 1), byMain), []podOption{exited(1)}, []string{"Created", "Failed"}},
		"it failed and is replaced":       {makeJob(replicas(worker, 1, "ExitCode"), byMain), []podOption{exited(137)}, []string{"Created", "Restarting"}},
		"the kubelet restarts it":         {makeJob(replicas(worker, 1, "OnFailure"), byMain), []podOption{exited(1)}, []string{"Created", "Running"}},
		"the kubelet does not restart it": {makeJob(replicas(worker, 1, "OnFailure"), byMain), []podOption{exited(0)}, []string{"Created", "Succeeded"}},
		"under Always nothing ends":       {makeJob(replicas(worker, 1, "Always"), byMain), []podOption{exited(0)}, []string{"Created", "Running"}},
		"it runs":                         {makeJob(replicas(worker, 1), byMain), nil, []string{"Created", "Running"}},
	} {
		t.Run(name, func(t *testing.T) {
			v := makeView(t, tc.job, makePod("worker", 0, running, tc.opts...))
			p := decide(v, testOptions, testTime)
			if diff := cmp.Diff(tc.want, describe(p.status)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

// The pod of such a replica still runs: cleaning up takes it, and what is known of the replica outlives it.
func TestSidecarsOfFinishedReplicasAreCleanedUp(t *testing.T) {
	w := newWorld(t)
	w.put(resJobs, makeJob(replicas(worker, 2), allWorkers, cleaning("Running"), annotated("tutti.dev/completion", "main-container")))
	w.look()
	w.setPhase("j-worker-0", running)
	w.setPhase("j-worker-1", running, exited(0))
	w.remove(resPods, "j-worker-1") // by an autoscaler, say, before anybody looks
	w.look()
	if got := w.job().Status.ReplicaStatuses[worker]; got.SucceededIndexes != "1" || w.objects[resPods]["j-worker-1"] != nil {
		t.Errorf("status %+v, pods %v", got, w.podNames())
	}
	w.setPhase("j-worker-0", corev1.PodRunning, exited(0))
	w.look()
	w.look()
	if w.job().Status.State != kubeflowv1.JobSucceeded || w.objects[resPods]["j-worker-0"].GetDeletionTimestamp() == nil {
		t.Errorf("state %s, pod %v", w.job().Status.State, w.objects[resPods]["j-worker-0"])
	}
}
