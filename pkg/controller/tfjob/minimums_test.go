// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	"github.com/tutti-project/tutti/pkg/apis/tutti"
)

func TestRoleMinimums(t *testing.T) {
	const chief, evaluator = kubeflowv1.TFJobReplicaTypeChief, kubeflowv1.TFJobReplicaTypeEval
	atLeast := func(n int32) jobOption {
		return scheduling(kubeflowv1.SchedulingPolicy{MinAvailable: new(n)})
	}
	written := func(value string) jobOption {
		return func(job *kubeflowv1.TFJob) {
			job.Annotations = map[string]string{tutti.RoleMinimumsAnnotation: value}
		}
	}
	for name, tc := range map[string]struct {
		opts []jobOption
		// phases of the workers' pods; empty is all pending.
		phases string
		want   string
	}{
		"all members":                            {opts: []jobOption{replicas(ps, 2), replicas(worker, 4)}},
		"all members, said so":                   {opts: []jobOption{replicas(ps, 2), replicas(worker, 4), atLeast(6)}},
		"more than there are holds the job back": {opts: []jobOption{replicas(ps, 2), replicas(worker, 4), atLeast(9)}},
		"workers may be fewer":                   {[]jobOption{replicas(ps, 2), replicas(worker, 4), atLeast(4)}, "", "ps=2,worker=2"},
		"one role":                               {[]jobOption{replicas(worker, 4), atLeast(3)}, "", "worker=3"},
		"chief first, evaluator last": {[]jobOption{replicas(evaluator, 1), replicas(worker, 2), replicas(ps, 1), replicas(chief, 1), atLeast(4)}, "",
			"chief=1,ps=1,worker=2"},
		"not even all PS":                {[]jobOption{replicas(ps, 3), replicas(worker, 4), atLeast(2)}, "", "ps=2"},
		"at least one":                   {[]jobOption{replicas(worker, 4), atLeast(-3)}, "", "worker=1"},
		"those that have succeeded":      {[]jobOption{replicas(ps, 1), replicas(worker, 4), atLeast(4)}, "SS.P", "ps=1,worker=1"},
		"only the needed ones are left":  {[]jobOption{replicas(ps, 1), replicas(worker, 4), atLeast(5)}, "SS.P", ""},
		"the user's":                     {[]jobOption{replicas(ps, 2), replicas(worker, 4), atLeast(4), written("ps=1, worker=3")}, "", "ps=1, worker=3"},
		"the user's, more than are left": {[]jobOption{replicas(ps, 2), replicas(worker, 4), atLeast(4), written("ps=1,worker=3")}, "SS.P", "ps=1,worker=2"},
		"the user's, to hold a job back": {[]jobOption{replicas(worker, 4), atLeast(4), written("worker=9")}, "", "worker=9"},
		"what cannot be read is kept":    {[]jobOption{replicas(worker, 4), atLeast(4), written("worker, x=1")}, "SS.P", "worker, x=1"},
	} {
		t.Run(name, func(t *testing.T) {
			v := makeView(t, makeJob(tc.opts...))
			for i, phase := range tc.phases {
				if phase != '.' {
					pod := makePod("worker", i, map[rune]corev1.PodPhase{'S': succeeded, 'P': pending}[phase])
					v.pods[pod.Name] = pod
				}
			}
			if got := newGroupOf(v).Annotations[tutti.RoleMinimumsAnnotation]; got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// The annotation is written with what it depends on, and not again.
func TestRoleMinimumsFollowTheJob(t *testing.T) {
	w := newWorld(t)
	w.put(resJobs, makeJob(replicas(ps, 1), replicas(worker, 3), scheduling(kubeflowv1.SchedulingPolicy{MinAvailable: ptr.To[int32](3)})))
	minimums := func() string {
		w.look()
		w.look()
		return w.objects[resGroups]["j"].GetAnnotations()[tutti.RoleMinimumsAnnotation]
	}
	if got := minimums(); got != "ps=1,worker=2" {
		t.Errorf("at first %q", got)
	}
	writes := len(w.writes)
	if minimums(); slices.Contains(w.writes[writes:], "patch podgroups j") {
		t.Error("written again")
	}
	w.edit(func(job *kubeflowv1.TFJob) { job.Spec.TFReplicaSpecs[worker].Replicas = ptr.To[int32](5) })
	if got := minimums(); got != "ps=1,worker=2" {
		t.Errorf("with more workers %q", got)
	}
	w.edit(func(job *kubeflowv1.TFJob) { job.Spec.RunPolicy.SchedulingPolicy.MinAvailable = nil })
	if got := minimums(); got != "" {
		t.Errorf("when all are needed %q", got)
	}
}
