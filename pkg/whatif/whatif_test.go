// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/tutti-project/tutti/pkg/engine"
	"github.com/tutti-project/tutti/pkg/snapshot"
)

// cluster is a snapshot in short: "node n1 r1 gpus=8", "gang g pods=4 gpus=2
// priority=5", "pod p on=n1 gpus=3", "job j workers=2 gpus=4".
func cluster(t *testing.T, lines string) *snapshot.Snapshot {
	t.Helper()
	var items []string
	for line := range strings.Lines(lines) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		with := map[string]string{"gpus": "0", "pods": "1", "priority": "0", "on": "", "workers": "1", "annotations": "{}"}
		for _, field := range fields[2:] {
			if key, value, ok := strings.Cut(field, "="); ok {
				with[key] = value
			}
		}
		name := fields[1]
		switch fields[0] {
		case "node":
			items = append(items, node(name, fields[2], with["gpus"]))
		case "pod":
			items = append(items, pod(name, "", with))
		case "gang":
			items = append(items, fmt.Sprintf("{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, metadata: {name: %s, namespace: ns, annotations: %s}, spec: {minMember: %s}}", name, with["annotations"], with["pods"]))
			count := 0
			_, _ = fmt.Sscan(with["pods"], &count)
			for i := range count {
				items = append(items, pod(fmt.Sprintf("%s-%d", name, i), name, with))
			}
		case "job":
			items = append(items, fmt.Sprintf(`{apiVersion: kubeflow.org/v1, kind: TFJob, metadata: {name: %s, namespace: ns, uid: job-uid}, spec: {tfReplicaSpecs: {Worker: {replicas: %s,
  template: {spec: {containers: [{name: tensorflow, image: i, resources: {limits: {nvidia.com/gpu: %s}}}]}}}}}}`, name, with["workers"], with["gpus"]))
		default:
			t.Fatalf("no line begins with %q", fields[0])
		}
	}
	list := map[string]any{"apiVersion": "v1", "kind": "List"}
	var objects []any
	for _, item := range items {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(item), &object); err != nil {
			t.Fatalf("%v in %s", err, item)
		}
		objects = append(objects, object)
	}
	list["items"] = objects
	data, err := yaml.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	s, err := snapshot.Read(strings.NewReader(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func node(name, rack, gpus string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Node, metadata: {name: %s, labels: {topology.kubernetes.io/zone: z1, topology.tutti.dev/rack: %s, kubernetes.io/hostname: %s}},
  status: {allocatable: {cpu: "64", memory: 256Gi, pods: "110", nvidia.com/gpu: "%s"}, capacity: {cpu: "64", memory: 256Gi, pods: "110", nvidia.com/gpu: "%s"}}}`, name, rack, name, gpus, gpus)
}

func pod(name, gang string, with map[string]string) string {
	labels, phase := "{}", "Pending"
	if gang != "" {
		labels = "{scheduling.x-k8s.io/pod-group: " + gang + "}"
	}
	if with["on"] != "" {
		phase = "Running"
	}
	return fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: ns, uid: uid-%s, labels: %s},
  spec: {schedulerName: tutti-scheduler, priority: %s, nodeName: "%s", containers: [{name: c, image: i, resources: {requests: {cpu: "1", nvidia.com/gpu: "%s"}}}]}, status: {phase: %s}}`,
		name, name, labels, with["priority"], with["on"], with["gpus"], phase)
}

func run(t *testing.T, s *snapshot.Snapshot, target Target, options Options) *Outcome {
	t.Helper()
	if err := engine.SetGates(); err != nil {
		t.Fatal(err)
	}
	options.Now = time.Now
	outcome, err := Run(t.Context(), s, target, options)
	if err != nil {
		t.Fatal(err)
	}
	return outcome
}

func in(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: name}
}

func places(o *Outcome) string {
	var b strings.Builder
	for _, p := range o.Pods {
		fmt.Fprintf(&b, "%s:%s ", p.Name, p.Node)
	}
	return strings.TrimSpace(b.String())
}

func TestAGangIsPlacedAsTheSchedulerWould(t *testing.T) {
	s := cluster(t, `
node n1 r1 gpus=8
node n2 r2 gpus=8
node n3 r2 gpus=8
gang g pods=2 gpus=8`)
	o := run(t, s, Target{Gang: in("g")}, Options{})
	if !o.Placed || places(o) != "g-0:n2 g-1:n3" {
		t.Errorf("placed %t: %s (%s: %s)", o.Placed, places(o), o.Reason, o.Message)
	}
	for _, pod := range s.Of("Pod") {
		if nodeOf(pod) != "" {
			t.Errorf("the snapshot was changed: pod %s has a node", pod.GetName())
		}
	}
}

func TestAGangThatDoesNotFit(t *testing.T) {
	o := run(t, cluster(t, `
node n1 r1 gpus=8
gang g pods=2 gpus=8
gang other pods=1 gpus=8`), Target{Gang: in("g")}, Options{})
	if o.Placed || o.Reason != "Unschedulable" || !strings.Contains(o.Message, "nvidia.com/gpu") {
		t.Errorf("placed %t, %s: %s", o.Placed, o.Reason, o.Message)
	}
}

func TestOthersAreEvictedOnlyIfAsked(t *testing.T) {
	lines := `
node n1 r1 gpus=8
pod low on=n1 gpus=4
gang g pods=1 gpus=8 priority=5`
	if o := run(t, cluster(t, lines), Target{Gang: in("g")}, Options{}); o.Placed || len(o.Evicted) > 0 {
		t.Errorf("placed %t, evicted %v", o.Placed, o.Evicted)
	}
	o := run(t, cluster(t, lines), Target{Gang: in("g")}, Options{Preempt: true})
	if !o.Placed || len(o.Evicted) != 1 || o.Evicted[0] != in("low") {
		t.Errorf("placed %t, evicted %v: %s", o.Placed, o.Evicted, o.Message)
	}
}

func TestAJobIsMadeByTheController(t *testing.T) {
	o := run(t, cluster(t, `
node n1 r1 gpus=8
node n2 r1 gpus=8
job j workers=2 gpus=8`), Target{Job: in("j")}, Options{})
	if !o.Placed || places(o) != "j-worker-0:n1 j-worker-1:n2" || o.Pods[0].Role != "worker" || o.Pods[0].Requests["nvidia.com/gpu"] != 8 {
		t.Errorf("placed %t: %+v (%s: %s)", o.Placed, o.Pods, o.Reason, o.Message)
	}
}

func TestASinglePod(t *testing.T) {
	o := run(t, cluster(t, `
node n1 r1 gpus=8
pod p gpus=1`), Target{Pod: in("p")}, Options{})
	if !o.Placed || places(o) != "p:n1" {
		t.Errorf("placed %t: %s (%s)", o.Placed, places(o), o.Message)
	}
	o = run(t, cluster(t, `
node n1 r1 gpus=8
pod p gpus=9`), Target{Pod: in("p")}, Options{})
	if o.Placed || !strings.Contains(o.Message, "Insufficient nvidia.com/gpu") {
		t.Errorf("placed %t: %s", o.Placed, o.Message)
	}
}

func TestATargetThatIsNotThere(t *testing.T) {
	_, err := Run(t.Context(), cluster(t, "node n1 r1 gpus=8"), Target{Gang: in("g")}, Options{})
	if err == nil || !strings.Contains(err.Error(), "podgroup ns/g is not in the snapshot") {
		t.Errorf("error %v", err)
	}
}
