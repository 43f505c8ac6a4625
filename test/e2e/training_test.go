// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

const (
	started = `(?m)^START step=(\d+)$`
	result  = `(?m)^RESULT step=(\d+) loss=([\d.]+) resumed_from=\d+$`
	target  = 0.1
)

// TestTraining applies the examples as users do.
func TestTraining(t *testing.T) {
	cases := map[string]struct {
		manifest string
		leader   string
		pods     []string // all of the job
		left     []string // after its success: those that have ended
		long     bool
	}{
		"parameter-server": {
			manifest: "parameter-server", leader: "worker-0",
			pods: []string{"ps-0", "ps-1", "worker-0", "worker-1"}, left: []string{"worker-0", "worker-1"},
		},
		"parameter-server-strategy": {
			manifest: "parameter-server-strategy", leader: "chief-0", long: true,
			pods: []string{"chief-0", "ps-0", "worker-0", "worker-1", "evaluator-0"}, left: []string{"chief-0", "evaluator-0"},
		},
		"all-reduce": {
			manifest: "all-reduce", leader: "worker-0",
			pods: []string{"worker-0", "worker-1"}, left: []string{"worker-0", "worker-1"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.long {
				long(t)
			}
			s := newScene(t)
			s.giveStorage()
			s.apply(text(t, "examples/"+tc.manifest+"/tfjob.yaml"))
			s.eventually("all pods are bound at once", func(ctx context.Context) error { return s.bound(ctx, withJob(name, tc.pods)) })
			s.ends(name, kubeflowv1.JobSucceeded)
			s.trained(name+"-"+tc.leader, 300)
			s.eventually("what still served is gone, what has ended stays", func(ctx context.Context) error {
				phases, err := s.phases(ctx)
				if err != nil {
					return err
				}
				return onlySucceeded(phases, withJob(name, []string{tc.leader}), withJob(name, tc.left))
			})
			s.vanish(name)
		})
	}
}

// TestSynchronousUpdates is the parameter-server program whose steps are one
// batch of every worker.
func TestSynchronousUpdates(t *testing.T) {
	long(t)
	s := newScene(t)
	s.giveStorage()
	job := example(t, "parameter-server", "--sync")
	s.create(job)
	s.ends(job.Name, kubeflowv1.JobSucceeded)
	s.trained(job.Name+"-worker-0", 300)
	s.vanish(job.Name)
}

// bound is nil when just these pods are there, in one gang of that size, and
// the scheduler gave nodes to all within a second or two.
func (s *scene) bound(ctx context.Context, names []string) error {
	groups, err := s.podGroups.SchedulingV1alpha1().PodGroups(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(groups.Items) != 1 || int(groups.Items[0].Spec.MinMember) != len(names) {
		return fmt.Errorf("%d pod groups, want one of %d pods", len(groups.Items), len(names))
	}
	pods, err := s.client.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var there []string
	var first, last time.Time
	for _, pod := range pods.Items {
		there = append(there, pod.Name)
		when := boundAt(&pod)
		if when.IsZero() || pod.Spec.SchedulerName != "tutti-scheduler" {
			return fmt.Errorf("pod %s of scheduler %s is not bound", pod.Name, pod.Spec.SchedulerName)
		}
		if first.IsZero() || when.Before(first) {
			first = when
		}
		if when.After(last) {
			last = when
		}
	}
	if !same(there, names) {
		return fmt.Errorf("pods %v, want %v", there, names)
	}
	// The API server keeps whole seconds.
	if gap := last.Sub(first); gap > 2*time.Second {
		s.t.Errorf("%s lie between the first and the last binding of the gang", gap)
	}
	return nil
}

// boundAt is zero when the pod has no node.
func boundAt(pod *corev1.Pod) time.Time {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionTrue {
			return condition.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// trained checks the result that a job's leader has printed.
func (s *scene) trained(leader string, steps float64) {
	s.t.Helper()
	last := s.await(leader, result, 1)
	if step := number(s.t, last[1]); step < steps {
		s.t.Errorf("the result is of step %g, want %g", step, steps)
	}
	if loss := number(s.t, last[2]); loss > target {
		s.t.Errorf("the loss is %g, want at most %g", loss, target)
	}
}

// onlySucceeded is nil when all that must be there are, no others than may be
// are, and all have succeeded.
func onlySucceeded(phases map[string]corev1.PodPhase, must, may []string) error {
	for _, name := range must {
		if _, ok := phases[name]; !ok {
			return fmt.Errorf("pod %s is gone", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(phases)) {
		if phases[name] != corev1.PodSucceeded || !slices.Contains(may, name) {
			return fmt.Errorf("pod %s is %s", name, phases[name])
		}
	}
	return nil
}

// example is a program's manifest with further arguments for all replicas.
func example(t *testing.T, name string, args ...string) *kubeflowv1.TFJob {
	t.Helper()
	job := &kubeflowv1.TFJob{}
	must(t, yaml.UnmarshalStrict([]byte(text(t, "examples/"+name+"/tfjob.yaml")), job))
	for _, replicas := range job.Spec.TFReplicaSpecs {
		container := &replicas.Template.Spec.Containers[0]
		container.Args = append(container.Args, args...)
	}
	return job
}

func withJob(job string, pods []string) []string {
	var names []string
	for _, pod := range pods {
		names = append(names, job+"-"+pod)
	}
	return names
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(text, 64)
	must(t, err)
	return n
}

// TestLegacyManifest runs the sample of v1alpha1, with an image that exists and
// arguments for it, to its end.
func TestLegacyManifest(t *testing.T) {
	s := newScene(t)
	program := `import json, os, sys, time
task = json.loads(os.environ["TF_CONFIG"])["task"]
print("I am", task["type"], task["index"], sys.argv[1:], flush=True)
time.sleep(3600 if task["type"] == "ps" else 1)`
	manifest, err := os.ReadFile("manifests/samples/legacy-v1alpha1.yaml")
	must(t, err)
	arguments, err := yaml.Marshal([]string{"-c", program, "--log_dir=gs://my-job/log-dir"})
	must(t, err)
	legacy := strings.ReplaceAll(string(manifest), "gcr.io/tf-on-k8s-dogfood/tf_sample:dc944ff", image)
	var lines []string
	for line := range strings.Lines(legacy) {
		if indent, _, found := strings.Cut(line, "- --log_dir"); found {
			for argument := range strings.Lines(string(arguments)) {
				lines = append(lines, indent+argument)
			}
			continue
		}
		lines = append(lines, line)
	}
	s.apply(strings.Join(lines, ""))
	s.ends("example-job", kubeflowv1.JobSucceeded)
	for pod, task := range map[string]string{"master-0": "master 0", "worker-1": "worker 1", "ps-0": "ps 0"} {
		s.await("example-job-"+pod, "(?m)^I am "+task+` \['--log_dir=gs://my-job/log-dir'\]$`, 1)
	}
	s.vanish("example-job")
}

// TestNamesResolve asks the cluster's DNS for every name in TF_CONFIG, from
// every replica.
func TestNamesResolve(t *testing.T) {
	s := newScene(t)
	program := `import json, os, socket, time
for peers in json.loads(os.environ["TF_CONFIG"])["cluster"].values():
    for peer in peers:
        while True:
            try:
                print(peer.split(".")[0], socket.gethostbyname(peer.split(":")[0]), flush=True)
                break
            except OSError:
                time.sleep(0.2)
time.sleep(5)`
	job := scripted("names", program, map[kubeflowv1.ReplicaType]int32{kubeflowv1.TFJobReplicaTypeWorker: 3, kubeflowv1.TFJobReplicaTypePS: 1})
	job.Spec.SuccessPolicy = new(kubeflowv1.SuccessPolicyAllWorkers)
	s.create(job)
	pods := []string{"names-worker-0", "names-worker-1", "names-worker-2", "names-ps-0"}
	for _, asked := range pods {
		for _, name := range pods {
			address := s.await(asked, "(?m)^"+name+" (.*)$", 1)[1]
			if want := s.pod(name).Status.PodIP; address != want {
				t.Errorf("%s resolves %s to %s, want %s", asked, name, address, want)
			}
		}
	}
	s.ends(job.Name, kubeflowv1.JobSucceeded)
	s.vanish(job.Name)
}
