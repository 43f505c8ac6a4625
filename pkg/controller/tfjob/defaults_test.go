// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

func TestDefaults(t *testing.T) {
	stored := makeJob()
	stored.Spec.TFReplicaSpecs = map[kubeflowv1.ReplicaType]*kubeflowv1.ReplicaSpec{
		"WORKER": {Template: template("tf:1")},
		"ps":     {Template: template("tf:1"), Replicas: ptr.To[int32](2), RestartPolicy: kubeflowv1.RestartPolicyAlways},
	}
	stored.Spec.TFReplicaSpecs["ps"].Template.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "custom", ContainerPort: 1234}}
	before := stored.DeepCopy()

	job, problems := canonical(stored)
	if len(problems) > 0 {
		t.Fatalf("problems: %v", problems)
	}
	if diff := cmp.Diff(before, stored); diff != "" {
		t.Errorf("the stored job was changed:\n%s", diff)
	}
	port := corev1.ContainerPort{Name: "tfjob-port", ContainerPort: 2222}
	want := map[kubeflowv1.ReplicaType]*kubeflowv1.ReplicaSpec{
		worker: {Template: template("tf:1"), Replicas: ptr.To[int32](1), RestartPolicy: kubeflowv1.RestartPolicyNever},
		ps:     {Template: template("tf:1"), Replicas: ptr.To[int32](2), RestartPolicy: kubeflowv1.RestartPolicyAlways},
	}
	want[worker].Template.Spec.Containers[0].Ports = []corev1.ContainerPort{port}
	want[ps].Template.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "custom", ContainerPort: 1234}, port}
	if diff := cmp.Diff(want, job.Spec.TFReplicaSpecs); diff != "" {
		t.Errorf("replicas (-want +got):\n%s", diff)
	}
	if got := *job.Spec.RunPolicy.CleanPodPolicy; got != kubeflowv1.CleanPodPolicyNone {
		t.Errorf("cleanPodPolicy is %q", got)
	}
	if got := *job.Spec.SuccessPolicy; got != kubeflowv1.SuccessPolicyDefault {
		t.Errorf("successPolicy is %q", got)
	}
}

func TestWhatTheUserWroteStays(t *testing.T) {
	stored := makeJob(replicas(worker, 3, kubeflowv1.RestartPolicyExitCode), cleaning(kubeflowv1.CleanPodPolicyRunning), allWorkers)
	stored.Spec.TFReplicaSpecs[worker].Template.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "tfjob-port", ContainerPort: 3333}}
	job, problems := canonical(stored)
	if diff := cmp.Diff(stored, job); diff != "" || len(problems) > 0 {
		t.Errorf("problems %v; (-stored +canonical):\n%s", problems, diff)
	}
}

func TestValidation(t *testing.T) {
	change := func(f func(*kubeflowv1.ReplicaSpec)) jobOption {
		return func(job *kubeflowv1.TFJob) { f(job.Spec.TFReplicaSpecs[worker]) }
	}
	named := func(name string) jobOption { return func(job *kubeflowv1.TFJob) { job.Name = name } }
	add := func(t kubeflowv1.ReplicaType, spec *kubeflowv1.ReplicaSpec) jobOption {
		return func(job *kubeflowv1.TFJob) { job.Spec.TFReplicaSpecs[t] = spec }
	}
	for name, tc := range map[string]struct {
		job  *kubeflowv1.TFJob
		want string
	}{
		"no replicas":                  {makeJob(), "there are no replicas"},
		"an unknown type":              {makeJob(replicas(worker, 1), replicas("Launcher", 1)), `replica type "Launcher" is not one of [Chief Evaluator Master PS Worker]`},
		"a type given twice":           {makeJob(replicas(worker, 1), replicas("worker", 1)), "replica type Worker is given twice"},
		"a null replica":               {makeJob(replicas(worker, 1), add(ps, nil)), "replica type PS is null"},
		"chief and master":             {makeJob(replicas("chief", 1), replicas(master, 1)), "there are both Chief and Master: one of them decides the job's success"},
		"a negative number":            {makeJob(replicas(worker, -1)), "Worker: the number of replicas, -1, is negative"},
		"zero of everything":           {makeJob(replicas(ps, 0), replicas(worker, 0)), "every replica type has 0 replicas"},
		"services of another kind":     {makeJob(replicas(worker, 1), annotated("tutti.dev/services", "none")), `annotation tutti.dev/services is "none"; it can be per-replica or per-job`},
		"another end":                  {makeJob(replicas(worker, 1), annotated("tutti.dev/completion", "")), `annotation tutti.dev/completion is ""; it can be pod or main-container`},
		"too many":                     {makeJob(replicas(worker, 1_000_000_000)), "there are 1000000000 replicas; at most 10000 are supported"},
		"no container":                 {makeJob(replicas(worker, 1), change(func(s *kubeflowv1.ReplicaSpec) { s.Template.Spec.Containers = nil })), "Worker: no container is named tensorflow"},
		"a misspelled container":       {makeJob(replicas(worker, 1), change(func(s *kubeflowv1.ReplicaSpec) { s.Template.Spec.Containers[0].Name = "tensorlow" })), "Worker: no container is named tensorflow"},
		"no image":                     {makeJob(replicas(worker, 1), change(func(s *kubeflowv1.ReplicaSpec) { s.Template.Spec.Containers[0].Image = "" })), `Worker: container "tensorflow" has no image`},
		"an unknown restart policy":    {makeJob(replicas(worker, 1, "Sometimes")), `Worker: restart policy "Sometimes" is not one of Always, OnFailure, Never, ExitCode`},
		"a digit first":                {makeJob(named("00test"), replicas(worker, 1)), `Worker: "00test-worker-0" cannot be the name of a service`},
		"a name too long by its index": {makeJob(named(strings.Repeat("a", 54)), replicas(worker, 11)), `-worker-10" cannot be the name of a service: must be no more than 63`},
		"a name just short enough":     {makeJob(named(strings.Repeat("a", 54)), replicas(worker, 10)), ""},
		"nothing wrong":                {makeJob(replicas(ps, 1), replicas(worker, 1)), ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems := canonical(tc.job)
			got := strings.Join(problems, "\n")
			if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			p := decide(makeView(t, tc.job), testOptions, testTime)
			if failed := isTrue(&p.status, kubeflowv1.JobFailed); failed != (tc.want != "") {
				t.Errorf("failed is %v", failed)
			}
			if tc.want != "" && (!p.isIdle() || p.status.CompletionTime == nil || len(p.events) != 1) {
				t.Errorf("idle is %v, completionTime is %v, events are %v", p.isIdle(), p.status.CompletionTime, p.events)
			}
		})
	}
}
