// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	schedulingv1alpha1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

func ownerOfTestJob() []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion: "kubeflow.org/v1", Kind: "TFJob", Name: "j", UID: "job-1",
		Controller: new(true), BlockOwnerDeletion: new(true),
	}}
}

func TestPod(t *testing.T) {
	job := makeJob(replicas(ps, 1), replicas(worker, 2, kubeflowv1.RestartPolicyExitCode))
	tmpl := &job.Spec.TFReplicaSpecs[worker].Template
	tmpl.Labels = map[string]string{"mine": "yes", "training.kubeflow.org/job-name": "a lie"}
	tmpl.Annotations = map[string]string{"note": "kept"}
	tmpl.Finalizers = []string{"example.com/keep"}
	tmpl.Spec.RestartPolicy = corev1.RestartPolicyAlways
	tmpl.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "i"}}
	tmpl.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "TF_CONFIG", Value: "old"}, {Name: "A", Value: "b"}}
	tmpl.Spec.Containers = append([]corev1.Container{{Name: "sidecar", Image: "s"}}, tmpl.Spec.Containers...)

	v := makeView(t, job)
	got, err := newPod(v, newcomer{slot: slot{&v.roles[1], 1}}, Options{SchedulerName: "tutti-scheduler", PodGroups: CRDPodGroups, Domain: "d.io"})
	if err != nil {
		t.Fatal(err)
	}
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "j-worker-1", Namespace: "n",
			Labels: map[string]string{
				"mine":                                "yes",
				"training.kubeflow.org/operator-name": "tfjob-controller",
				"training.kubeflow.org/job-name":      "j",
				"training.kubeflow.org/replica-type":  "worker",
				"training.kubeflow.org/replica-index": "1",
				"scheduling.x-k8s.io/pod-group":       "j",
			},
			Annotations:     map[string]string{"note": "kept"},
			Finalizers:      []string{"example.com/keep"},
			OwnerReferences: ownerOfTestJob(),
		},
		Spec: corev1.PodSpec{
			SchedulerName:  "tutti-scheduler",
			RestartPolicy:  corev1.RestartPolicyNever,
			InitContainers: []corev1.Container{{Name: "init", Image: "i"}},
			Containers: []corev1.Container{{Name: "sidecar", Image: "s"}, {
				Name: "tensorflow", Image: "tf:1",
				Ports: []corev1.ContainerPort{{Name: "tfjob-port", ContainerPort: 2222}},
				Env: []corev1.EnvVar{
					{Name: "TUTTI_PS_HOSTS", Value: "j-ps-0.n.svc.d.io:2222"},
					{Name: "TUTTI_WORKER_HOSTS", Value: "j-worker-0.n.svc.d.io:2222,j-worker-1.n.svc.d.io:2222"},
					{Name: "TUTTI_JOB_NAME", Value: "worker"}, {Name: "TUTTI_TASK_INDEX", Value: "1"},
					{Name: "TF_CONFIG", Value: "old"}, {Name: "A", Value: "b"}, {Name: "TF_CONFIG", Value: `{"cluster":{` +
						`"ps":["j-ps-0.n.svc.d.io:2222"],"worker":["j-worker-0.n.svc.d.io:2222","j-worker-1.n.svc.d.io:2222"]},` +
						`"task":{"type":"worker","index":1},"environment":"cloud"}`}},
			}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if tmpl.Labels["training.kubeflow.org/job-name"] != "a lie" {
		t.Error("the template was changed")
	}
}

func TestPodVariants(t *testing.T) {
	roleOf := func(job *kubeflowv1.TFJob, kind kubeflowv1.ReplicaType, index int) *corev1.Pod {
		v := makeView(t, job)
		for i := range v.roles {
			if v.roles[i].kind == kind {
				pod, err := newPod(v, newcomer{slot: slot{&v.roles[i], index}}, testOptions)
				if err != nil {
					t.Fatal(err)
				}
				return pod
			}
		}
		t.Fatalf("no role %s", kind)
		return nil
	}
	ownScheduler := makeJob(replicas(worker, 1))
	ownScheduler.Spec.TFReplicaSpecs[worker].Template.Spec.SchedulerName = "other"

	isMaster := func(pod *corev1.Pod) string { return pod.Labels["training.kubeflow.org/job-role"] }
	for name, tc := range map[string]struct{ got, want string }{
		"worker 0 leads where there is no chief": {isMaster(roleOf(makeJob(replicas(worker, 2)), worker, 0)), "master"},
		"worker 1 does not":                      {isMaster(roleOf(makeJob(replicas(worker, 2)), worker, 1)), ""},
		"the chief leads":                        {isMaster(roleOf(makeJob(replicas(chief, 1), replicas(worker, 2)), chief, 0)), "master"},
		"worker 0 does not lead beside a chief":  {isMaster(roleOf(makeJob(replicas(chief, 1), replicas(worker, 2)), worker, 0)), ""},
		"a PS does not lead":                     {isMaster(roleOf(makeJob(replicas(ps, 1), replicas(worker, 2)), ps, 0)), ""},
		"a scheduler in the template stays":      {roleOf(ownScheduler, worker, 0).Spec.SchedulerName, "other"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.got != tc.want {
				t.Errorf("got %q, want %q", tc.got, tc.want)
			}
		})
	}
	for _, env := range roleOf(makeJob(replicas(worker, 1)), worker, 0).Spec.Containers[0].Env {
		if env.Name == "TF_CONFIG" {
			t.Errorf("a local job has %v", env)
		}
	}
}

func TestService(t *testing.T) {
	job := makeJob(replicas(worker, 2))
	job.Spec.TFReplicaSpecs[worker].Template.Spec.Containers[0].Ports = []corev1.ContainerPort{
		{Name: "udp", ContainerPort: 53, Protocol: corev1.ProtocolUDP},
		{ContainerPort: 8080},
		{Name: "again", ContainerPort: 8080},
		{ContainerPort: 8080, Protocol: corev1.ProtocolUDP},
		{Name: "also-training", ContainerPort: 3333},
		{Name: "tfjob-port", ContainerPort: 3333},
	}
	v := makeView(t, job)
	labels := map[string]string{
		"training.kubeflow.org/operator-name": "tfjob-controller",
		"training.kubeflow.org/job-name":      "j",
		"training.kubeflow.org/replica-type":  "worker",
		"training.kubeflow.org/replica-index": "0",
	}
	port := func(name string, number int32, protocol corev1.Protocol) corev1.ServicePort {
		return corev1.ServicePort{Name: name, Port: number, TargetPort: intstr.FromInt32(number), Protocol: protocol}
	}
	want := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "j-worker-0", Namespace: "n", Labels: labels, OwnerReferences: ownerOfTestJob()},
		Spec: corev1.ServiceSpec{
			ClusterIP: "None", PublishNotReadyAddresses: true, Selector: labels,
			Ports: []corev1.ServicePort{
				port("tfjob-port", 3333, corev1.ProtocolTCP), port("udp", 53, corev1.ProtocolUDP),
				port("port-8080-tcp", 8080, corev1.ProtocolTCP), port("port-8080-udp", 8080, corev1.ProtocolUDP),
			},
		},
	}
	if diff := cmp.Diff(want, newService(v, v.addresses()[0])); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func newGroupOf(v *view) *schedulingv1alpha1.PodGroup {
	return CRDPodGroups.write(gangOf(v, count(v, testTime))).(*schedulingv1alpha1.PodGroup)
}

func TestPodGroup(t *testing.T) {
	job := makeJob(replicas(ps, 2), replicas(worker, 4))
	job.Annotations = map[string]string{"tutti.dev/required-topology": "rack", corev1.LastAppliedConfigAnnotation: "{}"}
	want := &schedulingv1alpha1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{
			Name: "j", Namespace: "n", OwnerReferences: ownerOfTestJob(),
			Labels: map[string]string{
				"training.kubeflow.org/operator-name": "tfjob-controller",
				"training.kubeflow.org/job-name":      "j",
			},
			Annotations: map[string]string{"tutti.dev/required-topology": "rack"},
		},
		Spec: schedulingv1alpha1.PodGroupSpec{MinMember: 6},
	}
	if diff := cmp.Diff(want, newGroupOf(makeView(t, job))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	resources := map[corev1.ResourceName]resource.Quantity{"cpu": resource.MustParse("8")}
	job.Spec.RunPolicy.SchedulingPolicy = &kubeflowv1.SchedulingPolicy{
		MinAvailable: ptr.To[int32](3), MinResources: &resources, ScheduleTimeoutSeconds: ptr.To[int32](60),
	}
	wantSpec := schedulingv1alpha1.PodGroupSpec{MinMember: 3, MinResources: resources, ScheduleTimeoutSeconds: ptr.To[int32](60)}
	if diff := cmp.Diff(wantSpec, newGroupOf(makeView(t, job)).Spec); diff != "" {
		t.Errorf("with a scheduling policy (-want +got):\n%s", diff)
	}
}

func TestPodGroupPatch(t *testing.T) {
	want := newGroupOf(makeView(t, makeJob(replicas(worker, 2), func(job *kubeflowv1.TFJob) {
		job.Annotations = map[string]string{"tutti.dev/required-topology": "rack"}
	})))
	for name, tc := range map[string]struct {
		change func(*schedulingv1alpha1.PodGroup)
		want   string
	}{
		"the same needs none":            {func(*schedulingv1alpha1.PodGroup) {}, ""},
		"others' annotations are theirs": {func(g *schedulingv1alpha1.PodGroup) { g.Annotations["other"] = "x" }, ""},
		"another size": {func(g *schedulingv1alpha1.PodGroup) { g.Spec.MinMember = 3 },
			`[{"op":"replace","path":"/metadata/resourceVersion","value":"7"},{"op":"add","path":"/spec","value":{"minMember":2}}]`},
		"an annotation changed, one was taken back": {
			func(g *schedulingv1alpha1.PodGroup) {
				g.Annotations = map[string]string{"tutti.dev/required-topology": "spine", "tutti.dev/gpu-link": "nvlink", "other": "x"}
			},
			`[{"op":"replace","path":"/metadata/resourceVersion","value":"7"},{"op":"add","path":"/metadata/annotations",` +
				`"value":{"other":"x","tutti.dev/required-topology":"rack"}}]`},
	} {
		t.Run(name, func(t *testing.T) {
			is := want.DeepCopy()
			is.ResourceVersion = "7"
			tc.change(is)
			if got := string(CRDPodGroups.patch(is, want)); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}
