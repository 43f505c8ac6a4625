// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

func legacyJob(specs ...kubeflowv1.LegacyReplicaSpec) *kubeflowv1.TFJob {
	job := makeJob()
	job.Spec.ReplicaSpecs = specs
	return job
}

func legacyTemplate(image string, policy corev1.RestartPolicy) *corev1.PodTemplateSpec {
	t := template(image)
	t.Spec.RestartPolicy = policy
	return &t
}

// brief is what the rest of the package sees of a replica.
type brief struct {
	Replicas  int32
	Policy    kubeflowv1.RestartPolicy
	Image     string
	Port      int
	Scheduler string
}

func briefs(job *kubeflowv1.TFJob) map[kubeflowv1.ReplicaType]brief {
	all := map[kubeflowv1.ReplicaType]brief{}
	for t, spec := range job.Spec.TFReplicaSpecs {
		pod := &spec.Template.Spec
		all[t] = brief{*spec.Replicas, spec.RestartPolicy, pod.Containers[0].Image, trainingPort(pod), pod.SchedulerName}
	}
	return all
}

func TestLegacyShape(t *testing.T) {
	onFailure := legacyTemplate("sample", corev1.RestartPolicyOnFailure)
	type legacy = kubeflowv1.LegacyReplicaSpec
	for name, tc := range map[string]struct {
		job  *kubeflowv1.TFJob
		want map[kubeflowv1.ReplicaType]brief
	}{
		"a PS without a template uses the master's": {
			legacyJob(legacy{TFReplicaType: "MASTER", Replicas: ptr.To[int32](1), Template: onFailure},
				legacy{TFReplicaType: "WORKER", Replicas: ptr.To[int32](2), Template: legacyTemplate("other", corev1.RestartPolicyNever)},
				legacy{TFReplicaType: "PS", Replicas: ptr.To[int32](1)}),
			map[kubeflowv1.ReplicaType]brief{
				master: {1, "OnFailure", "sample", 2222, ""},
				worker: {2, "Never", "other", 2222, ""},
				ps:     {1, "OnFailure", "sample", 2222, ""},
			}},
		"without a master, the workers'": {
			legacyJob(legacy{TFReplicaType: "PS"}, legacy{TFReplicaType: "WORKER", Template: onFailure}),
			map[kubeflowv1.ReplicaType]brief{
				worker: {1, "OnFailure", "sample", 2222, ""},
				ps:     {1, "OnFailure", "sample", 2222, ""},
			}},
		"a type left out is MASTER, and case does not matter": {
			legacyJob(legacy{Template: onFailure}, legacy{TFReplicaType: "Worker"}),
			map[kubeflowv1.ReplicaType]brief{
				master: {1, "OnFailure", "sample", 2222, ""},
				worker: {1, "OnFailure", "sample", 2222, ""},
			}},
		"a port of its own": {
			legacyJob(legacy{TFReplicaType: "MASTER", Template: onFailure}, legacy{TFReplicaType: "PS", TFPort: ptr.To[int32](3333)}),
			map[kubeflowv1.ReplicaType]brief{
				master: {1, "OnFailure", "sample", 2222, ""},
				ps:     {1, "OnFailure", "sample", 3333, ""},
			}},
		"a template without a policy": {
			legacyJob(legacy{Template: legacyTemplate("sample", "")}),
			map[kubeflowv1.ReplicaType]brief{master: {1, "Never", "sample", 2222, ""}}},
		"PS with nobody to borrow from run the job's image": {
			func() *kubeflowv1.TFJob {
				job := legacyJob(legacy{TFReplicaType: "PS"})
				job.Spec.TFImage, job.Spec.SchedulerName = "tf:old", "mine"
				return job
			}(),
			map[kubeflowv1.ReplicaType]brief{ps: {1, "Never", "tf:old", 2222, "mine"}}},
		"a container without an image runs the job's": {
			func() *kubeflowv1.TFJob {
				job := legacyJob(legacy{Template: legacyTemplate("", corev1.RestartPolicyNever)})
				job.Spec.TFImage = "tf:old"
				return job
			}(),
			map[kubeflowv1.ReplicaType]brief{master: {1, "Never", "tf:old", 2222, ""}}},
	} {
		t.Run(name, func(t *testing.T) {
			before := tc.job.DeepCopy()
			job, problems := canonical(tc.job)
			if len(problems) > 0 {
				t.Fatalf("problems: %v", problems)
			}
			if diff := cmp.Diff(tc.want, briefs(job)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.job); diff != "" {
				t.Errorf("the stored job was changed:\n%s", diff)
			}
			p := decide(makeView(t, tc.job), testOptions, testTime)
			if slices.Contains(reasons(p.events), "SetPodTemplateRestartPolicy") {
				t.Error("a legacy job is told that its restart policy is in the wrong place")
			}
		})
	}
}

func TestLegacyProblems(t *testing.T) {
	type legacy = kubeflowv1.LegacyReplicaSpec
	full := legacyTemplate("sample", corev1.RestartPolicyNever)
	chiefIs := func(job *kubeflowv1.TFJob, t kubeflowv1.ReplicaType, index int32) *kubeflowv1.TFJob {
		job.Spec.TerminationPolicy = &kubeflowv1.TerminationPolicy{Chief: &kubeflowv1.TerminationChief{ReplicaName: t, ReplicaIndex: index}}
		return job
	}
	both := legacyJob(legacy{Template: full})
	replicas(worker, 1)(both)
	for name, tc := range map[string]struct {
		job  *kubeflowv1.TFJob
		want string
	}{
		"both shapes":          {both, "there are both tfReplicaSpecs and replicaSpecs"},
		"an unknown type":      {legacyJob(legacy{TFReplicaType: "BOSS", Template: full}), `tfReplicaType "BOSS" is not one of MASTER, WORKER, PS`},
		"a type twice":         {legacyJob(legacy{Template: full}, legacy{TFReplicaType: "MASTER"}), "tfReplicaType MASTER is given twice"},
		"no template anywhere": {legacyJob(legacy{TFReplicaType: "WORKER"}), "Worker: no container is named tensorflow"},
		"a chief that is not there": {chiefIs(legacyJob(legacy{TFReplicaType: "WORKER", Template: full}), "MASTER", 0),
			"terminationPolicy names Master, and there are no such replicas"},
		"a PS as chief":     {chiefIs(legacyJob(legacy{TFReplicaType: "PS", Template: full}), "PS", 0), `terminationPolicy.chief.replicaName "PS" is not one of MASTER, WORKER`},
		"a chief of rank 1": {chiefIs(legacyJob(legacy{TFReplicaType: "WORKER", Template: full}), "WORKER", 1), "terminationPolicy.chief.replicaIndex is 1; only 0 can decide"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, problems := canonical(tc.job); !strings.Contains(strings.Join(problems, "\n"), tc.want) {
				t.Errorf("got %v, want %q", problems, tc.want)
			}
		})
	}
}

func TestLegacyChief(t *testing.T) {
	type legacy = kubeflowv1.LegacyReplicaSpec
	full := legacyTemplate("sample", corev1.RestartPolicyNever)
	for name, tc := range map[string]struct {
		policy *kubeflowv1.TerminationPolicy
		want   kubeflowv1.ReplicaType
	}{
		"the master by default":    {nil, master},
		"the master when told so":  {&kubeflowv1.TerminationPolicy{Chief: &kubeflowv1.TerminationChief{}}, master},
		"the workers when told so": {&kubeflowv1.TerminationPolicy{Chief: &kubeflowv1.TerminationChief{ReplicaName: "WORKER"}}, worker},
	} {
		t.Run(name, func(t *testing.T) {
			stored := legacyJob(legacy{Template: full}, legacy{TFReplicaType: "WORKER"})
			stored.Spec.TerminationPolicy = tc.policy
			job, problems := canonical(stored)
			if got := decidingType(job); got != tc.want || len(problems) > 0 {
				t.Errorf("got %s (problems %v), want %s", got, problems, tc.want)
			}
		})
	}
}
