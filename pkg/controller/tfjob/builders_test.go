// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	"github.com/tutti-project/tutti/pkg/clusterspec"
)

var (
	testTime    = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	testOptions = Options{SchedulerName: "tutti-scheduler", PodGroups: CRDPodGroups}
)

type jobOption func(*kubeflowv1.TFJob)

// makeJob is a job named j in namespace n.
func makeJob(opts ...jobOption) *kubeflowv1.TFJob {
	job := &kubeflowv1.TFJob{ObjectMeta: metav1.ObjectMeta{Name: "j", Namespace: "n", UID: "job-1", ResourceVersion: "1"}}
	for _, opt := range opts {
		opt(job)
	}
	return job
}

func replicas(t kubeflowv1.ReplicaType, n int32, policy ...kubeflowv1.RestartPolicy) jobOption {
	return func(job *kubeflowv1.TFJob) {
		spec := &kubeflowv1.ReplicaSpec{Replicas: &n, Template: template("tf:1")}
		for _, p := range policy {
			spec.RestartPolicy = p
		}
		if job.Spec.TFReplicaSpecs == nil {
			job.Spec.TFReplicaSpecs = map[kubeflowv1.ReplicaType]*kubeflowv1.ReplicaSpec{}
		}
		job.Spec.TFReplicaSpecs[t] = spec
	}
}

func template(image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "tensorflow", Image: image}}}}
}

func cleaning(policy kubeflowv1.CleanPodPolicy) jobOption {
	return func(job *kubeflowv1.TFJob) { job.Spec.RunPolicy.CleanPodPolicy = &policy }
}

func suspended(job *kubeflowv1.TFJob) { job.Spec.RunPolicy.Suspend = new(true) }

func dynamic(job *kubeflowv1.TFJob) { job.Spec.EnableDynamicWorker = true }

func allWorkers(job *kubeflowv1.TFJob) {
	job.Spec.SuccessPolicy = ptr.To(kubeflowv1.SuccessPolicyAllWorkers)
}

// makeView is a view of a job for which everything but pods exists, and the given pods.
func makeView(t *testing.T, job *kubeflowv1.TFJob, pods ...*corev1.Pod) *view {
	t.Helper()
	v := &view{
		stored:   job,
		pods:     map[string]*corev1.Pod{},
		services: map[string]*corev1.Service{},
		groups:   map[string]podGroup{},
		open:     map[entry]bool{},
		taken:    map[entry]bool{},
	}
	v.job, v.problems = canonical(job)
	v.roles = rolesFrom(v.job)
	for _, pod := range pods {
		v.pods[pod.Name] = pod
	}
	v.perJob = perJobServices(v, testOptions)
	if len(v.problems) == 0 {
		for _, a := range v.addresses() {
			v.services[a.name] = newService(v, a)
		}
		v.groups[v.job.Name] = newGroupOf(v)
	}
	return v
}

type podOption func(*corev1.Pod)

// makePod is the pod of j's slot, in the given phase.
func makePod(roleName string, index int, phase corev1.PodPhase, opts ...podOption) *corev1.Pod {
	name := clusterspec.TaskName("j", clusterspec.Task{Role: roleName, Index: index})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "n", UID: types.UID("uid-" + name)}}
	pod.Status.Phase = phase
	for _, opt := range opts {
		opt(pod)
	}
	return pod
}

func makePods(roleName string, phases ...corev1.PodPhase) []*corev1.Pod {
	var pods []*corev1.Pod
	for i, phase := range phases {
		pods = append(pods, makePod(roleName, i, phase))
	}
	return pods
}

func exited(code int32) podOption {
	return func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name:  "tensorflow",
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}},
		}}
	}
}

func terminating(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: testTime} }

// describe writes conditions in order: the type, and the status unless it is True.
func describe(status kubeflowv1.JobStatus) []string {
	var lines []string
	for _, c := range status.Conditions {
		line := string(c.Type)
		if c.Status != corev1.ConditionTrue {
			line += " " + string(c.Status)
		}
		lines = append(lines, line)
	}
	return lines
}

// actions writes what a plan does, in the order of acting.
func actions(v *view, p *plan) []string {
	var lines []string
	for _, pod := range p.restartPods {
		lines = append(lines, "restart pod "+pod.Name)
	}
	for _, pod := range p.deletePods {
		lines = append(lines, "delete pod "+pod.Name)
	}
	for _, s := range p.deleteServices {
		lines = append(lines, "delete service "+s.Name)
	}
	for _, g := range p.deleteGroups {
		lines = append(lines, "delete group "+g.GetName())
	}
	if p.createGroup != nil {
		lines = append(lines, "create group "+v.job.Name)
	}
	if p.patchGroup != nil {
		lines = append(lines, "update group "+v.job.Name)
	}
	for _, a := range p.createServices {
		lines = append(lines, "create service "+a.name)
	}
	for _, s := range p.createPods {
		lines = append(lines, "create pod "+s.name(v.job))
	}
	if p.deleteJob {
		lines = append(lines, "delete job "+v.job.Name)
	}
	return lines
}

func reasons(events []event) []string {
	var all []string
	for _, e := range events {
		all = append(all, e.reason)
	}
	return all
}
