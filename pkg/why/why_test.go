// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-project/tutti/pkg/engine"
	"github.com/tutti-project/tutti/pkg/snapshot"
	"github.com/tutti-project/tutti/pkg/snapshot/sketch"
	"github.com/tutti-project/tutti/pkg/whatif"
)

// reasons: what is asked about is "x" in every cluster; the answer holds the
// texts given.
var reasons = []struct {
	name, cluster string
	state         State
	because, help string
}{
	{"room is there", "node n1 r1 gpus=8\ngang x pods=1 gpus=8", Waits, "there is room for it now: placed 1 pod in host n1", ""},
	{"too few GPUs in all", "node n1 r1 gpus=8\ngang x pods=2 gpus=8", Waits, "nvidia.com/gpu", ""},
	{"more per pod than any node has", "node n1 r1 gpus=8\ngang x pods=1 gpus=16", Waits, "nvidia.com/gpu", ""},
	{"fragmentation", "node n1 r1 gpus=8\nnode n2 r1 gpus=8\npod a on=n1 gpus=1\npod b on=n2 gpus=1\ngang x pods=1 gpus=8", Waits, "14 free where no such pod fits", ""},
	{"cordon", "node n1 r1 gpus=8 node=unschedulable:~true\ngang x pods=1 gpus=8", Waits, "unschedulable", ""},
	{"taint", "node n1 r1 gpus=8 node=taints:~[{key:~gpu,value:~only,effect:~NoSchedule}]\ngang x pods=1 gpus=8", Waits, "taint", ""},
	{"node selector", "node n1 r1 gpus=8\ngang x pods=1 gpus=8 spec=nodeSelector:~{disk:~ssd}", Waits, "node affinity/selector", ""},
	{"required rack too small", "node n1 r1 gpus=8\nnode n2 r2 gpus=8\ngang x pods=2 gpus=8 annotations={tutti.dev/required-topology:~rack}", Waits, "rack", "without tutti.dev/required-topology it would start"},
	{"unknown level", "node n1 r1 gpus=8\ngang x pods=1 gpus=8 annotations={tutti.dev/required-topology:~row}", Waits, `"row" is no level of this cluster`, "without tutti.dev/required-topology it would start"},
	{"level that no node carries", "node n1 r1 gpus=8\ngang x pods=1 gpus=8 annotations={tutti.dev/required-topology:~nvlink-domain}", Waits, "no node of this cluster carries the level", "without tutti.dev/required-topology it would start"},
	{"misspelt annotation", "node n1 r1 gpus=8\ngang x pods=1 gpus=8 annotations={tutti.dev/require-topology:~rack}", Waits, "annotation tutti.dev/require-topology is unknown", ""},
	{"slices", "node n1 r1 gpus=8\nnode n2 r2 gpus=8\ngang x pods=2 gpus=8 annotations={tutti.dev/slice-size:~\"2\",tutti.dev/slice-topology:~rack}", Waits, "rack", "without tutti.dev/slice-topology it would start"},
	{"links of which nothing is known", "node n1 r1 gpus=8\ngang x pods=1 gpus=2 annotations={tutti.dev/gpu-link:~nvlink}", Waits, "link", "without tutti.dev/gpu-link it would start"},
	{"two models of GPU", "node n1 r1 gpus=8 labels=nvidia.com/gpu.product:~A\nnode n2 r1 gpus=8 labels=nvidia.com/gpu.product:~B\ngang x pods=2 gpus=8", Waits, "", `with tutti.dev/uniform-gpus: "false" it would start`},
	{"lower priority in the way", "node n1 r1 gpus=8\npod low on=n1 gpus=8\ngang x pods=1 gpus=8 priority=5", Waits, "nvidia.com/gpu", "it may evict pods of lower priority, and would start then: placed 1 pod in host n1 (z1/r1/n1); evicted: ns/low"},
	{"equal priority in the way", "node n1 r1 gpus=8\npod same on=n1 gpus=8\ngang x pods=1 gpus=8", Waits, "nvidia.com/gpu", ""},
	{"missing group", "node n1 r1 gpus=8\nobject {apiVersion: v1, kind: Pod, metadata: {name: x, namespace: ns, labels: {scheduling.x-k8s.io/pod-group: g}}, spec: {schedulerName: tutti-scheduler}}", Waits, "PodGroup ns/g, which does not exist", ""},
	{"missing pods", "node n1 r1 gpus=8\ngang x pods=2 minimum=3 gpus=1", Waits, "2 of the 3 pods exist", ""},
	{"another scheduler", "node n1 r1 gpus=8\nobject {apiVersion: v1, kind: Pod, metadata: {name: x, namespace: ns}, spec: {schedulerName: default-scheduler}}", Waits, "its schedulerName is default-scheduler; Tutti places the pods of tutti-scheduler", ""},
	{"another scheduler for a gang", "node n1 r1 gpus=8\nobject {apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, metadata: {name: x, namespace: ns}, spec: {minMember: 1}}\nobject {apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ns, labels: {scheduling.x-k8s.io/pod-group: x}}, spec: {containers: []}}", Waits, "schedulerName of p is default-scheduler", ""},
	{"gates", "node n1 r1 gpus=8\ngang x pods=1 gpus=1 spec=schedulingGates:~[{name:~kueue.x-k8s.io/admission}]", Waits, "scheduling gates hold x-0: kueue.x-k8s.io/admission", ""},
	{"suspended job", "object {apiVersion: kubeflow.org/v1, kind: TFJob, metadata: {name: x, namespace: ns}, spec: {runPolicy: {suspend: true}}}", Waits, "it is suspended", ""},
	{"job of another controller", "object {apiVersion: kubeflow.org/v1, kind: TFJob, metadata: {name: x, namespace: ns}, spec: {runPolicy: {managedBy: kueue.x-k8s.io/multikueue}}}", Waits, "managedBy is kueue.x-k8s.io/multikueue", ""},
	{"failed job", "object {apiVersion: kubeflow.org/v1, kind: TFJob, metadata: {name: x, namespace: ns}, status: {conditions: [{type: Failed, status: \"True\", message: worker 0 failed}]}}", Failed, "worker 0 failed", ""},
	{"pod that failed", "node n1 r1 gpus=8\nobject {apiVersion: v1, kind: Pod, metadata: {name: x, namespace: ns}, spec: {nodeName: n1}, status: {phase: Failed, containerStatuses: [{name: c, state: {terminated: {exitCode: 137, reason: OOMKilled}}}]}}", Failed, "pod x failed, container c ended with exit code 137 (OOMKilled); kubectl logs x -n ns", ""},
	{"pod that its node threw out", "node n1 r1 gpus=8\nobject {apiVersion: v1, kind: Pod, metadata: {name: x, namespace: ns}, spec: {nodeName: n1}, status: {phase: Failed, reason: Evicted, message: the node was low on memory}}", Failed, "pod x failed, Evicted, the node was low on memory", ""},
	{"pod that ended well", "node n1 r1 gpus=8\nobject {apiVersion: v1, kind: Pod, metadata: {name: x, namespace: ns}, spec: {nodeName: n1}, status: {phase: Succeeded}}", Finished, "pod x has succeeded", ""},
	{"gang that has ended", "node n1 r1 gpus=8\nobject {apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, metadata: {name: x, namespace: ns}, spec: {minMember: 1}}\nobject {apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ns, labels: {scheduling.x-k8s.io/pod-group: x}}, spec: {nodeName: n1}, status: {phase: Failed}}", Failed, "pod p failed", ""},
	{"job that ended well", "object {apiVersion: kubeflow.org/v1, kind: TFJob, metadata: {name: x, namespace: ns}, status: {conditions: [{type: Succeeded, status: \"True\", message: it is done}]}}", Finished, "it is done", ""},
	{"no controller", "job x", Waits, "no controller has taken it up", ""},
	{"pod too large", "node n1 r1 gpus=8\npod x gpus=9", Waits, "Insufficient nvidia.com/gpu", ""},
	{"image that is not there", "node n1 r1 gpus=8\nobject {apiVersion: v1, kind: Pod, metadata: {name: x, namespace: ns}, spec: {nodeName: n1}, status: {phase: Pending, containerStatuses: [{name: c, state: {waiting: {reason: ImagePullBackOff}}}]}}", Starts, "pod x is on node n1, and container c waits: ImagePullBackOff", ""},
	{"runs", "node n1 r1 gpus=8\npod x on=n1 gpus=1", Runs, "", ""},
	{"gang of which one pod has ended well", "node n1 r1 gpus=8\ngang x pods=1 minimum=2 gpus=8\nobject {apiVersion: v1, kind: Pod, metadata: {name: done, namespace: ns, labels: {scheduling.x-k8s.io/pod-group: x}}, spec: {nodeName: n1}, status: {phase: Succeeded}}", Waits, "there is room for it now", ""},
	{"native: room is there", "node n1 r1 gpus=8\nnative x pods=1 gpus=8", Waits, "there is room for it now: placed 1 pod in host n1", ""},
	{"native: too few GPUs in all", "node n1 r1 gpus=8\nnative x pods=2 gpus=8", Waits, "nvidia.com/gpu", ""},
	{"native: required rack too small", "node n1 r1 gpus=8\nnode n2 r2 gpus=8\nnative x pods=2 gpus=8 annotations={tutti.dev/required-topology:~rack}", Waits, "rack", "without tutti.dev/required-topology it would start"},
	{"native: the same by its spec", "node n1 r1 gpus=8\nnode n2 r2 gpus=8\nnative x pods=2 gpus=8 group=schedulingConstraints:~{topology:~[{key:~topology.tutti.dev/rack}]}", Waits, "rack", "without spec.schedulingConstraints.topology it would start"},
	{"native: lower priority in the way", "node n1 r1 gpus=8\npod low on=n1 gpus=8\nnative x pods=1 gpus=8 priority=5", Waits, "nvidia.com/gpu", "it may evict pods of lower priority, and would start then: placed 1 pod in host n1 (z1/r1/n1); evicted: ns/low"},
	{"native: missing group", "node n1 r1 gpus=8\nobject {apiVersion: v1, kind: Pod, metadata: {name: x, namespace: ns}, spec: {schedulerName: tutti-scheduler, schedulingGroup: {podGroupName: g}}}", Waits, "PodGroup ns/g, which does not exist; create it: what a pod names in spec.schedulingGroup stays", ""},
	{"native: missing pods", "node n1 r1 gpus=8\nnative x pods=2 minimum=3 gpus=1", Waits, "2 of the 3 pods exist that its minCount asks for; pods belong to it by their spec.schedulingGroup.podGroupName: x", ""},
	{"native: pods named by label", "node n1 r1 gpus=8\nobject {apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: x, namespace: ns}, spec: {schedulingPolicy: {gang: {minCount: 1}}}}\nobject {apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ns, uid: u, labels: {scheduling.x-k8s.io/pod-group: x}}, spec: {schedulerName: tutti-scheduler, containers: [{name: c, image: i}]}, status: {phase: Pending}}", Waits, "there is room for it now", ""},
	{"native: it goes before the CRD's of its name", "node n1 r1 gpus=8\nobject {apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, metadata: {name: x, namespace: ns}, spec: {minMember: 9}}\nnative x pods=1 gpus=8", Waits, "there is room for it now", ""},
	{"native: no gang", "node n1 r1 gpus=8\nobject {apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: x, namespace: ns}, spec: {schedulingPolicy: {basic: {}}}}\nobject {apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ns, uid: u}, spec: {schedulerName: tutti-scheduler, schedulingGroup: {podGroupName: x}, containers: [{name: c, image: i}]}, status: {phase: Pending}}", Waits, "there is room for it now", ""},
	{"missing volume claim", "node n1 r1 gpus=8\ngang x pods=1 gpus=1 spec=volumes:~[{name:~v,persistentVolumeClaim:~{claimName:~data}}]", Waits, `persistentvolumeclaim "data" not found`, ""},
}

func TestReasons(t *testing.T) {
	if err := engine.SetGates(); err != nil {
		t.Fatal(err)
	}
	for _, tc := range reasons {
		t.Run(tc.name, func(t *testing.T) {
			answer := explain(t, sketch.Cluster(t, tc.cluster), func(*Facts) {})
			if answer.State != tc.state {
				t.Errorf("it %s, want %s", answer.State, tc.state)
			}
			contains(t, "because", answer.Because, tc.because)
			contains(t, "help", answer.Help, tc.help)
		})
	}
}

// contains wants the text in the lines; without one, no line of help.
func contains(t *testing.T, what string, lines []string, want string) {
	t.Helper()
	text := strings.Join(lines, "\n")
	if !strings.Contains(text, want) || (want == "" && what == "help" && text != "") {
		t.Errorf("%s: %q, want %q", what, text, want)
	}
}

func explain(t *testing.T, s *snapshot.Snapshot, add func(*Facts)) *Answer {
	t.Helper()
	facts := Facts{
		Snapshot: s, Now: time.Now(), Schedulers: []string{"tutti-scheduler"},
		Run: func(s *snapshot.Snapshot, target whatif.Target, preempt bool) (*whatif.Outcome, error) {
			return whatif.Run(t.Context(), s, target, whatif.Options{Preempt: preempt, Now: time.Now})
		},
	}
	add(&facts)
	subject, err := Find(s, []string{"TFJob", "PodGroup", "Pod"}, types.NamespacedName{Namespace: "ns", Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := Explain(facts, subject)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func TestWhatNoSnapshotHolds(t *testing.T) {
	gang := "node n1 r1 gpus=8\ngang x pods=1 gpus=8"
	answer := explain(t, sketch.Cluster(t, gang), func(f *Facts) { f.Renewed = &time.Time{} })
	contains(t, "because", answer.Because, "tutti-scheduler has no lease")
	answer = explain(t, sketch.Cluster(t, gang), func(f *Facts) { old := f.Now.Add(-time.Hour); f.Renewed = &old })
	contains(t, "because", answer.Because, "has not renewed its lease for 1h0m0s")
	answer = explain(t, sketch.Cluster(t, "job x"), func(f *Facts) { f.Warnings = []string{"Error creating pod x-worker-0: exceeded quota: q"} })
	contains(t, "because", answer.Because, "it has no pods, for: Error creating pod x-worker-0: exceeded quota: q")
}

// TestAGroupThatMayNotBeRead is not said to be missing.
func TestAGroupThatMayNotBeRead(t *testing.T) {
	for kind, pod := range map[string]string{
		"PodGroup":                      "labels: {scheduling.x-k8s.io/pod-group: g}}, spec: {schedulerName: tutti-scheduler}",
		"PodGroup of scheduling.k8s.io": "}, spec: {schedulerName: tutti-scheduler, schedulingGroup: {podGroupName: g}}",
	} {
		s := sketch.Cluster(t, "node n1 r1 gpus=8\nobject {apiVersion: v1, kind: Pod, metadata: {name: x, namespace: ns, "+pod+"}")
		s.Unread = []string{kind}
		answer := explain(t, s, func(*Facts) {})
		contains(t, "because", answer.Because, "PodGroup ns/g, which could not be read, since you may not list podgroups.scheduling.")
	}
}

func TestFindNamesWhatItLookedFor(t *testing.T) {
	_, err := Find(sketch.Cluster(t, "node n1 r1 gpus=8"), []string{"TFJob", "PodGroup", "Pod"}, types.NamespacedName{Namespace: "ns", Name: "x"})
	if err == nil || err.Error() != "there is no TFJob, PodGroup or Pod x in namespace ns" {
		t.Error(err)
	}
}
