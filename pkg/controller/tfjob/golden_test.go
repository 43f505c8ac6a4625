// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

var rewrite = flag.Bool("rewrite", false, "write the files of testdata/upstream anew")

// TestWhatClientsOfUpstreamSeeIsTheSame: for every testdata/upstream/<name>.yaml, a job, <name>.golden holds all that is made for it and what its
// status says in the course of its life. Names, labels, owner references, ports, TF_CONFIG, gang marks, conditions, their reasons and their order
// are the contract of training-operator 1.9; a difference is somebody's broken script. (Tutti's own are the TUTTI_ variables,
// publishNotReadyAddresses and the PodGroup's labels.)
func TestWhatClientsOfUpstreamSeeIsTheSame(t *testing.T) {
	files, err := filepath.Glob("testdata/upstream/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no jobs: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			job := &kubeflowv1.TFJob{}
			if err := yaml.UnmarshalStrict(data, job); err != nil {
				t.Fatal(err)
			}
			job.UID = "job-1"
			got := lifeOf(t, job)
			golden := strings.TrimSuffix(file, ".yaml") + ".golden"
			if *rewrite {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// lifeOf a job j: it is created, runs, is suspended, resumed, and succeeds.
func lifeOf(t *testing.T, job *kubeflowv1.TFJob) string {
	var out strings.Builder
	options := testOptions
	options.Domain = job.Annotations["test/domain"]
	w := newWorldOf(t, options)
	note := func(step string) {
		w.look()
		w.look() // at what came of the first
		fmt.Fprintf(&out, "# %s\n%s\n", step, statusLines(w.job().Status))
	}
	w.put(resJobs, job)
	note("created")
	for _, resource := range []string{resGroups, resServices, resPods} {
		for _, name := range slices.Sorted(maps.Keys(w.objects[resource])) {
			fmt.Fprintf(&out, "--- %s %s\n%s", resource, name, manifest(t, w.objects[resource][name]))
		}
	}
	out.WriteString("\n")
	canonicalJob, _ := canonical(job)
	decider := strings.ToLower(string(decidingType(canonicalJob)))
	w.setPhases("", corev1.PodRunning)
	note("running")
	w.edit(suspended)
	w.look()
	for _, name := range w.podNames() {
		w.remove(resPods, name)
	}
	note("suspended")
	w.edit(func(job *kubeflowv1.TFJob) { job.Spec.RunPolicy.Suspend = new(false) })
	note("resumed")
	w.setPhases("", corev1.PodRunning)
	note("running again")
	w.setPhases(decider, corev1.PodSucceeded, exited(0))
	note("succeeded")
	for _, resource := range []string{resGroups, resServices, resPods} {
		fmt.Fprintf(&out, "--- %s left: %s\n", resource, strings.Join(slices.Sorted(maps.Keys(w.objects[resource])), " "))
	}
	return out.String()
}

// setPhases of all pods of a role, or of all.
func (w *world) setPhases(role string, phase corev1.PodPhase, opts ...podOption) {
	for _, name := range w.podNames() {
		if strings.HasPrefix(name, "j-"+role) {
			w.setPhase(name, phase, opts...)
		}
	}
}

func statusLines(status kubeflowv1.JobStatus) string {
	var lines []string
	for _, c := range status.Conditions {
		lines = append(lines, fmt.Sprintf("condition %s=%s %s", c.Type, c.Status, c.Reason))
	}
	for _, kind := range replicaTypes {
		if rs := status.ReplicaStatuses[kind]; rs != nil {
			lines = append(lines, fmt.Sprintf("replicas %s: %d active, %d succeeded, %d failed", kind, rs.Active, rs.Succeeded, rs.Failed))
		}
	}
	lines = append(lines, fmt.Sprintf("startTime set: %v, completionTime set: %v", status.StartTime != nil, status.CompletionTime != nil))
	return strings.Join(lines, "\n")
}

// manifest leaves out what an API server adds.
func manifest(t *testing.T, o apiObject) string {
	o = o.DeepCopyObject().(apiObject)
	o.SetUID("")
	o.SetResourceVersion("")
	data, err := yaml.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.DeleteFunc(strings.SplitAfter(string(data), "\n"), func(line string) bool {
		return strings.Contains(line, "creationTimestamp: null") || line == "status: {}\n" || line == "status:\n" ||
			line == "  loadBalancer: {}\n" || line == "  phase: Pending\n"
	})
	return strings.Join(lines, "")
}
