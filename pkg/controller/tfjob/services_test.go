// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

func annotated(key, value string) jobOption {
	return func(job *kubeflowv1.TFJob) { job.Annotations = merged(job.Annotations, map[string]string{key: value}) }
}

func TestOneServiceForAllPods(t *testing.T) {
	job := makeJob(replicas(ps, 1), replicas(worker, 1), annotated("tutti.dev/services", "per-job"))
	job.Spec.TFReplicaSpecs[ps].Template.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "tfjob-port", ContainerPort: 3333}, {Name: "web", ContainerPort: 80}}
	v := makeView(t, job)
	labels := map[string]string{"training.kubeflow.org/operator-name": "tfjob-controller", "training.kubeflow.org/job-name": "j"}
	want := map[string]*corev1.Service{"j": newService(v, address{name: "j"})}
	if diff := cmp.Diff(want, v.services); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	got := v.services["j"]
	if diff := cmp.Diff([]any{labels, labels}, []any{got.Labels, got.Spec.Selector}); diff != "" {
		t.Errorf("labels and selector (-want +got):\n%s", diff)
	}
	if !got.Spec.PublishNotReadyAddresses || got.Spec.ClusterIP != corev1.ClusterIPNone {
		t.Errorf("got %+v", got.Spec)
	}
	wantPorts := []corev1.ServicePort{
		{Name: "tfjob-port", Port: 3333, TargetPort: intstr.FromInt32(3333), Protocol: corev1.ProtocolTCP},
		{Name: "web", Port: 80, TargetPort: intstr.FromInt32(80), Protocol: corev1.ProtocolTCP},
	}
	if diff := cmp.Diff(wantPorts, got.Spec.Ports); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}

	pod, err := newPod(v, newcomer{slot: slot{&v.roles[1], 0}}, Options{Domain: "d.io"})
	if err != nil {
		t.Fatal(err)
	}
	if pod.Spec.Hostname != "j-worker-0" || pod.Spec.Subdomain != "j" {
		t.Errorf("the pod is known as %s.%s", pod.Spec.Hostname, pod.Spec.Subdomain)
	}
	env := pod.Spec.Containers[0].Env
	const wantConfig = `{"cluster":{"ps":["j-ps-0.j.n.svc.d.io:3333"],"worker":["j-worker-0.j.n.svc.d.io:2222"]},"task":{"type":"worker","index":0},"environment":"cloud"}`
	if last := env[len(env)-1]; last.Name != "TF_CONFIG" || last.Value != wantConfig {
		t.Errorf("got %s=%s", last.Name, last.Value)
	}
}

func TestWhichServicesAJobHas(t *testing.T) {
	two := []jobOption{replicas(worker, 2)}
	perJob, perReplica := annotated("tutti.dev/services", "per-job"), annotated("tutti.dev/services", "per-replica")
	for name, tc := range map[string]struct {
		opt     jobOption
		options Options
		there   string // names of services that exist
		want    string
	}{
		"by default one per replica":                   {nil, Options{}, "", "j-worker-0 j-worker-1"},
		"as the administrator says":                    {nil, Options{ServicePerJob: true}, "", "j"},
		"as the job says":                              {perJob, Options{}, "", "j"},
		"the job says otherwise":                       {perReplica, Options{ServicePerJob: true}, "", "j-worker-0 j-worker-1"},
		"a word that means nothing":                    {annotated("tutti.dev/services", "none"), Options{}, "", "j-worker-0 j-worker-1"},
		"pods that run were told of the others' names": {perJob, Options{}, "j-worker-0", "j-worker-0 j-worker-1"},
		"and the other way round":                      {perReplica, Options{}, "j", "j"},
	} {
		t.Run(name, func(t *testing.T) {
			opts := two[:1:1]
			if tc.opt != nil {
				opts = append(opts, tc.opt)
			}
			v := makeView(t, makeJob(opts...))
			clear(v.services)
			for name := range strings.FieldsSeq(tc.there) {
				v.services[name] = &corev1.Service{}
			}
			v.perJob = perJobServices(v, tc.options)
			var got []string
			for _, a := range v.addresses() {
				got = append(got, a.name)
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAJobWithOneServiceLivesAndEndsLikeAnyOther(t *testing.T) {
	const policy = kubeflowv1.CleanPodPolicyAll
	w := newWorld(t)
	job := gangJob(policy)
	annotated("tutti.dev/services", "per-job")(job)
	w.put(resJobs, job)
	w.settle()
	if diff := cmp.Diff(wantEnd[policy], w.end()); diff != "" {
		t.Errorf("end (-want +got):\n%s", diff)
	}
	services := 0
	for _, action := range w.writes {
		if strings.HasPrefix(action, "create services") {
			services++
		}
	}
	if services != 1 {
		t.Errorf("%d services were made", services)
	}
}
