// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	schedulingv1alpha1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

func scheduling(policy kubeflowv1.SchedulingPolicy) jobOption {
	return func(job *kubeflowv1.TFJob) { job.Spec.RunPolicy.SchedulingPolicy = &policy }
}

// inTemplate edits the pod template of a role.
func inTemplate(t kubeflowv1.ReplicaType, edit func(*corev1.PodSpec)) jobOption {
	return func(job *kubeflowv1.TFJob) { edit(&job.Spec.TFReplicaSpecs[t].Template.Spec) }
}

func class(name string) func(*corev1.PodSpec) {
	return func(pod *corev1.PodSpec) { pod.PriorityClassName = name }
}

func quantities(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func requesting(pairs ...string) func(*corev1.PodSpec) {
	return func(pod *corev1.PodSpec) { pod.Containers[0].Resources.Requests = quantities(pairs...) }
}

func TestMinResources(t *testing.T) {
	psAndWorkers := func(opts ...jobOption) *kubeflowv1.TFJob {
		return makeJob(append([]jobOption{replicas(ps, 1), replicas(worker, 3), inTemplate(ps, requesting("cpu", "1")), inTemplate(worker, requesting("cpu", "4"))}, opts...)...)
	}
	users := map[corev1.ResourceName]resource.Quantity(quantities("cpu", "2"))
	always := corev1.ContainerRestartPolicyAlways
	for name, tc := range map[string]struct {
		job  *kubeflowv1.TFJob
		want corev1.ResourceList
	}{
		"nothing is asked for":              {makeJob(replicas(worker, 3)), nil},
		"all members":                       {psAndWorkers(), quantities("cpu", "13")},
		"L10 the first two, roles in order": {psAndWorkers(scheduling(kubeflowv1.SchedulingPolicy{MinAvailable: ptr.To[int32](2)})), quantities("cpu", "5")},
		"the evaluator last": {makeJob(replicas(evaluator, 1), replicas(worker, 2), inTemplate(evaluator, requesting("cpu", "1")),
			inTemplate(worker, requesting("cpu", "4")), scheduling(kubeflowv1.SchedulingPolicy{MinAvailable: ptr.To[int32](2)})), quantities("cpu", "8")},
		"the user's word":        {psAndWorkers(scheduling(kubeflowv1.SchedulingPolicy{MinResources: &users})), quantities("cpu", "2")},
		"no more than there are": {psAndWorkers(scheduling(kubeflowv1.SchedulingPolicy{MinAvailable: ptr.To[int32](99)})), quantities("cpu", "13")},
		"a limit stands for a request, per resource": {makeJob(replicas(worker, 2), inTemplate(worker, func(pod *corev1.PodSpec) {
			pod.Containers[0].Resources = corev1.ResourceRequirements{Requests: quantities("cpu", "1"), Limits: quantities("cpu", "2", "nvidia.com/gpu", "8")}
		})), quantities("cpu", "2", "nvidia.com/gpu", "16")},
		"init containers and sidecars as the node counts them": {makeJob(replicas(worker, 1), inTemplate(worker, func(pod *corev1.PodSpec) {
			pod.InitContainers = []corev1.Container{
				{Name: "sidecar", RestartPolicy: &always, Resources: corev1.ResourceRequirements{Requests: quantities("cpu", "1")}},
				{Name: "init", Resources: corev1.ResourceRequirements{Requests: quantities("cpu", "6")}},
			}
			pod.Containers[0].Resources.Requests = quantities("cpu", "4")
		})), quantities("cpu", "7")},
	} {
		t.Run(name, func(t *testing.T) {
			for range 5 {
				if diff := cmp.Diff(tc.want, newGroupOf(makeView(t, tc.job)).Spec.MinResources); diff != "" {
					t.Fatalf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestPriorityClasses(t *testing.T) {
	high := scheduling(kubeflowv1.SchedulingPolicy{PriorityClass: "high"})
	const mixed = `The job cannot be run: PS has priority class "low" and Worker has "high": the pods of a gang have one priority class.`
	for name, tc := range map[string]struct {
		job         *kubeflowv1.TFJob
		want        string // the workers' class
		wantProblem string
	}{
		"none": {makeJob(replicas(ps, 1), replicas(worker, 1)), "", ""},
		"the job's, for templates that name none":      {makeJob(replicas(ps, 1), replicas(worker, 1), high), "high", ""},
		"a template's own stays":                       {makeJob(replicas(worker, 1), high, inTemplate(worker, class("mine"))), "mine", ""},
		"the same in one way or the other":             {makeJob(replicas(ps, 1), replicas(worker, 1), high, inTemplate(ps, class("high"))), "high", ""},
		"different ones cannot be one gang":            {makeJob(replicas(ps, 1), replicas(worker, 1), high, inTemplate(ps, class("low"))), "high", mixed},
		"a role without replicas may have what it has": {makeJob(replicas(ps, 0), replicas(worker, 1), high, inTemplate(ps, class("low"))), "high", ""},
	} {
		t.Run(name, func(t *testing.T) {
			v := makeView(t, tc.job)
			bare(v)
			last := len(v.roles) - 1
			pod, err := newPod(v, newcomer{slot: slot{&v.roles[last], 0}}, testOptions)
			if err != nil || pod.Spec.PriorityClassName != tc.want {
				t.Errorf("got %q, want %q (%v)", pod.Spec.PriorityClassName, tc.want, err)
			}
			p := decide(v, testOptions, testTime)
			problem := ""
			if c := findCondition(&p.status, kubeflowv1.JobFailed); c != nil {
				problem = c.Message
			}
			if problem != tc.wantProblem || tc.wantProblem != "" && !p.isIdle() {
				t.Errorf("got  %s\nwant %s\nactions %v", problem, tc.wantProblem, actions(v, p))
			}
			if p = decide(v, Options{}, testTime); isFinished(&p.status) {
				t.Error("without gangs the classes are the user's business")
			}
		})
	}
}

// B56, L11: the PodGroup follows the job, and is written only when it differs.
func TestThePodGroupFollowsTheJob(t *testing.T) {
	job := makeJob(replicas(worker, 2), inTemplate(worker, requesting("cpu", "500m")), scheduling(kubeflowv1.SchedulingPolicy{
		MinAvailable: ptr.To[int32](10), Queue: "q1", ScheduleTimeoutSeconds: ptr.To[int32](60),
	}))
	is := newGroupOf(makeView(t, job))
	if is.Spec.MinMember != 10 || is.Annotations["tutti.dev/queue"] != "q1" || *is.Spec.ScheduleTimeoutSeconds != 60 {
		t.Errorf("got %+v, annotations %v", is.Spec, is.Annotations)
	}
	step := func(name string, want []string) {
		t.Helper()
		v := makeView(t, job, makePods("worker", pending, pending)...)
		v.groups["j"] = is
		p := decide(v, testOptions, testTime)
		if diff := cmp.Diff(want, actions(v, p)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		is = newGroupOf(v)
	}
	step("the same", nil)
	is.Spec.MinResources["cpu"] = resource.MustParse("1000m")
	step("the same in other words", nil)
	is.Status = schedulingv1alpha1.PodGroupStatus{Phase: "Scheduled"}
	step("a status", nil)
	job.Spec.RunPolicy.SchedulingPolicy.MinAvailable = ptr.To[int32](1)
	step("B56 fewer will do", []string{"update group j"})
	step("and stay", nil)
	job.Spec.RunPolicy.SchedulingPolicy.ScheduleTimeoutSeconds = ptr.To[int32](90)
	step("another timeout", []string{"update group j"})
}
