// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// slow is training of a minute: what is struck is back before the others end.
var slow = []string{"--steps=600", "--pause=0.1"}

// TestWorkerKilled is the short one: a worker's process is killed, and nothing
// else.
func TestWorkerKilled(t *testing.T) {
	s := newScene(t)
	s.giveStorage()
	job := example(t, "parameter-server", slow...)
	s.create(job)
	s.await(job.Name+"-worker-0", `(?m)^step=`, 2)
	s.await(job.Name+"-worker-1", started, 1)
	s.killContainer(job.Name + "-worker-1")
	s.resumed(job.Name + "-worker-1")
	s.ends(job.Name, kubeflowv1.JobSucceeded)
	s.trained(job.Name+"-worker-0", 600)
	s.vanish(job.Name)
}

// TestRecovery strikes a training job in many ways, and at the same time kills
// the controller, the scheduler and the API server. Training must go on from
// its checkpoint and reach its end.
func TestRecovery(t *testing.T) {
	long(t)
	cases := map[string]struct {
		example string
		leader  string
		strike  func(s *scene, job string)
		// resumes is the replica that says from which step it goes on; empty where
		// nothing has to start again.
		resumes string
	}{
		"worker-killed": {"parameter-server", "worker-0", killed("worker-1"), "worker-1"},
		"chief-killed":  {"parameter-server", "worker-0", killed("worker-0"), "worker-0"},
		"server-killed": {"parameter-server", "worker-0", killed("ps-0"), "worker-0"},
		"strategy":      {"parameter-server-strategy", "chief-0", killed("ps-0"), "chief-0"},
		"peer-killed":   {"all-reduce", "worker-0", killed("worker-1"), "worker-0"},
		"pod-evicted":   {"parameter-server", "worker-0", evicted("worker-1"), "worker-1"},
		"pod-deleted":   {"all-reduce", "worker-0", deleted("worker-0"), "worker-0"},
		"node-killed":   {"parameter-server", "worker-0", nodeKilled("worker-1"), "worker-1"},
		"node-cut-off":  {"parameter-server", "worker-0", nodeCutOff("worker-1"), ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.giveStorage()
			job := example(t, tc.example, slow...)
			s.create(job)
			s.await(job.Name+"-"+tc.leader, `(?m)^step=`, 2)
			if tc.resumes != "" {
				s.await(job.Name+"-"+tc.resumes, started, 1)
			}
			tc.strike(s, job.Name)
			s.eventually("the programs are killed", s.killPrograms)
			if tc.resumes != "" {
				s.resumed(job.Name + "-" + tc.resumes)
			}
			s.ends(job.Name, kubeflowv1.JobSucceeded)
			s.trained(job.Name+"-"+tc.leader, 600)
			s.vanish(job.Name)
		})
	}
}

// resumed waits until a replica's next container goes on from a checkpoint.
func (s *scene) resumed(pod string) {
	s.t.Helper()
	if from := number(s.t, s.await(pod, started, 2)[1]); from == 0 {
		s.t.Errorf("%s began from step 0", pod)
	}
}

// killContainer ends a container's process the way the kernel does when memory
// is short.
func (s *scene) killContainer(pod string) {
	s.t.Helper()
	must(s.t, command(s.t.Context(), "", "docker", "exec", s.pod(pod).Spec.NodeName, "sh", "-c",
		`kill -KILL $(grep -lzx "HOSTNAME=$0" /proc/[0-9]*/environ | cut -d/ -f3)`, pod))
	s.eventually(pod+" has exited with 137", func(ctx context.Context) error {
		now, err := s.client.CoreV1().Pods(s.namespace).Get(ctx, pod, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, status := range now.Status.ContainerStatuses {
			for _, ended := range []*corev1.ContainerStateTerminated{status.State.Terminated, status.LastTerminationState.Terminated} {
				if ended != nil && ended.ExitCode == 137 {
					return nil
				}
			}
		}
		return fmt.Errorf("no container has exited so")
	})
}

func killed(replica string) func(*scene, string) {
	return func(s *scene, job string) { s.killContainer(job + "-" + replica) }
}

// evicted ends a pod by the API that drains nodes.
func evicted(replica string) func(*scene, string) {
	return func(s *scene, job string) {
		s.t.Helper()
		must(s.t, s.client.PolicyV1().Evictions(s.namespace).Evict(s.t.Context(),
			&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: job + "-" + replica}, DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: new(int64(2))}}))
	}
}

func deleted(replica string) func(*scene, string) {
	return func(s *scene, job string) {
		s.t.Helper()
		must(s.t, s.client.CoreV1().Pods(s.namespace).Delete(s.t.Context(), job+"-"+replica, metav1.DeleteOptions{GracePeriodSeconds: new(int64(2))}))
	}
}

// nodeKilled takes away the power of a replica's node, and gives it back when
// the cluster has noticed.
func nodeKilled(replica string) func(*scene, string) {
	return func(s *scene, job string) {
		s.t.Helper()
		s.outage(s.pod(job+"-"+replica).Spec.NodeName,
			func(node string) []string { return []string{"kill", node} },
			func(node string) []string { return []string{"start", node} })
	}
}

// nodeCutOff takes away its network: its containers run on.
func nodeCutOff(replica string) func(*scene, string) {
	return func(s *scene, job string) {
		s.t.Helper()
		s.outage(s.pod(job+"-"+replica).Spec.NodeName,
			func(node string) []string { return []string{"network", "disconnect", "kind", node} },
			func(node string) []string { return []string{"network", "connect", "kind", node} })
	}
}

func (s *scene) outage(node string, begin, end func(node string) []string) {
	s.t.Helper()
	must(s.t, command(s.t.Context(), "", "docker", begin(node)...))
	over := false
	restore := func(ctx context.Context) {
		if over {
			return
		}
		over = true
		if err := command(ctx, "", "docker", end(node)...); err != nil {
			s.t.Error(err)
		}
	}
	s.t.Cleanup(func() { restore(context.WithoutCancel(s.t.Context())) })
	s.eventually(node+" is not ready", s.readiness(node, false))
	restore(s.t.Context())
	s.eventually(node+" is ready", s.readiness(node, true))
}

// TestImageThatCannotBePulled: the job waits, says why, and leaves nothing.
func TestImageThatCannotBePulled(t *testing.T) {
	long(t)
	s := newScene(t)
	job := each(scripted("unpullable", forever, map[kubeflowv1.ReplicaType]int32{kubeflowv1.TFJobReplicaTypeWorker: 2}), func(replicas *kubeflowv1.ReplicaSpec) {
		replicas.Template.Spec.Containers[0].Image = "localhost/none:1"
	})
	s.create(job)
	s.eventually("the pods cannot pull", func(ctx context.Context) error {
		pods, err := s.gang(ctx, job.Name, 2)
		if err != nil {
			return err
		}
		for _, pod := range pods {
			if len(pod.Status.ContainerStatuses) == 0 || pod.Status.ContainerStatuses[0].State.Waiting == nil || pod.Status.ContainerStatuses[0].State.Waiting.Reason != "ImagePullBackOff" {
				return fmt.Errorf("pod %s has not the reason ImagePullBackOff", pod.Name)
			}
		}
		return nil
	})
	must(t, s.killPrograms(t.Context()))
	s.eventually("the job still waits", func(ctx context.Context) error {
		now, err := s.tutti.KubeflowV1().TFJobs(s.namespace).Get(ctx, job.Name, metav1.GetOptions{})
		if err == nil && now.Status.State != kubeflowv1.JobCreated {
			err = fmt.Errorf("it is %s", now.Status.State)
		}
		return err
	})
	s.vanish(job.Name)
}

// TestExits: what the exit code of a real container makes of a job whose
// policy is ExitCode. Each program fails at its first run alone.
func TestExits(t *testing.T) {
	long(t)
	const first = `import os, signal, sys, time
mark = "/training/mark"
again = os.path.exists(mark)
open(mark, "w").close()
print("RUN", flush=True)
time.sleep(2)
if again: sys.exit(0)
`
	cases := map[string]struct {
		program string
		limit   string // of memory
		want    kubeflowv1.JobConditionType
		runs    int
		reason  string // of the first container's end
	}{
		"exit-1":    {first + "sys.exit(1)", "", kubeflowv1.JobFailed, 1, "Error"},
		"exit-137":  {first + "sys.exit(137)", "", kubeflowv1.JobSucceeded, 2, ""},
		"killed":    {first + "os.kill(os.getpid(), signal.SIGKILL); sys.exit(137)", "", kubeflowv1.JobSucceeded, 2, ""},
		"oomkilled": {first + "everything = bytearray(1 << 30); time.sleep(60)", "64Mi", kubeflowv1.JobSucceeded, 2, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.giveStorage()
			job := scripted(name, tc.program, map[kubeflowv1.ReplicaType]int32{kubeflowv1.TFJobReplicaTypeWorker: 1})
			s.create(each(job, func(replicas *kubeflowv1.ReplicaSpec) {
				replicas.RestartPolicy = kubeflowv1.RestartPolicyExitCode
				mountTraining(&replicas.Template.Spec)
				if tc.limit != "" {
					replicas.Template.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(tc.limit)}
				}
			}))
			s.await(name+"-worker-0", "(?m)^RUN$", 1)
			must(t, s.killPrograms(t.Context()))
			s.ends(name, tc.want)
			if runs := len(s.printed(name+"-worker-0", "(?m)^RUN$")); runs != tc.runs {
				t.Errorf("the program ran %d times, want %d", runs, tc.runs)
			}
			if tc.reason != "" {
				if ended := s.pod(name + "-worker-0").Status.ContainerStatuses[0].State.Terminated; ended == nil || ended.Reason != tc.reason {
					t.Errorf("the container ended as %+v, want reason %s", ended, tc.reason)
				}
			}
			s.vanish(name)
		})
	}
}

func mountTraining(spec *corev1.PodSpec) {
	spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "training", MountPath: "/training"}}
	spec.Volumes = []corev1.Volume{{Name: "training", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "training"},
	}}}
}
