// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package sketch draws snapshots for tests from a few lines of text.
package sketch

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/tutti-project/tutti/pkg/snapshot"
)

// Cluster is a snapshot, all in namespace ns: "node n1 r1 gpus=8" is a node of
// rack r1; "gang g pods=4 gpus=2 priority=5" a group with its pods, and "native"
// one of the API server's own kind; "pod p on=n1 gpus=3" a pod; "job j workers=2
// gpus=4" a TFJob without pods yet; and "object" is followed by one in YAML flow
// style. annotations=, group=, spec=, node= and labels= add YAML to the group, its
// spec, its pods' spec, a node's spec and labels, with ~ for a blank.
func Cluster(t *testing.T, lines string) *snapshot.Snapshot {
	t.Helper()
	var items []string
	for line := range strings.Lines(lines) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		with := optionsOf(fields[2:])
		name := fields[1]
		switch fields[0] {
		case "object":
			items = append(items, strings.TrimPrefix(strings.TrimSpace(line), "object "))
		case "node":
			items = append(items, node(name, fields[2], with))
		case "pod":
			items = append(items, pod(name, "", with))
		case "gang", "native":
			items = append(items, gang(fields[0], name, with)...)
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

// optionsOf reads key=value fields.
func optionsOf(fields []string) map[string]string {
	with := map[string]string{"gpus": "0", "pods": "1", "minimum": "", "priority": "0", "on": "", "workers": "1", "annotations": "{}", "group": "", "spec": "", "node": "", "labels": ""}
	for _, field := range fields {
		if key, value, ok := strings.Cut(field, "="); ok {
			with[key] = strings.ReplaceAll(value, "~", " ")
		}
	}
	if with["minimum"] == "" {
		with["minimum"] = with["pods"]
	}
	return with
}

func node(name, rack string, with map[string]string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Node, metadata: {name: %s, labels: {topology.kubernetes.io/zone: z1, topology.tutti.dev/rack: %s, kubernetes.io/hostname: %s %s}},
  spec: {%s}, status: {allocatable: {cpu: "64", memory: 256Gi, pods: "110", nvidia.com/gpu: "%s"}, capacity: {cpu: "64", memory: 256Gi, pods: "110", nvidia.com/gpu: "%s"}}}`,
		name, rack, name, more(with["labels"]), with["node"], with["gpus"], with["gpus"])
}

// more is what follows in a flow mapping.
func more(fields string) string {
	if fields == "" {
		return ""
	}
	return ", " + fields
}

// gang is a group and its pods, which name it in the way of its kind.
func gang(kind, name string, with map[string]string) []string {
	version, minimum := "scheduling.x-k8s.io/v1alpha1", "minMember: "+with["minimum"]
	labels := "scheduling.x-k8s.io/pod-group: " + name
	if kind == "native" {
		version = "scheduling.k8s.io/v1beta1"
		minimum = fmt.Sprintf("schedulingPolicy: {gang: {minCount: %s}}, disruptionMode: {all: {}}, priority: %s", with["minimum"], with["priority"])
		labels = ""
		with["spec"] = "schedulingGroup: {podGroupName: " + name + "}" + more(with["spec"])
	}
	items := []string{fmt.Sprintf("{apiVersion: %s, kind: PodGroup, metadata: {name: %s, namespace: ns, annotations: %s}, spec: {%s %s}}",
		version, name, with["annotations"], minimum, more(with["group"]))}
	count := 0
	_, _ = fmt.Sscan(with["pods"], &count)
	for i := range count {
		items = append(items, pod(fmt.Sprintf("%s-%d", name, i), labels, with))
	}
	return items
}

func pod(name, labels string, with map[string]string) string {
	phase := "Pending"
	if with["on"] != "" {
		phase = "Running"
	}
	return fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: ns, uid: uid-%s, labels: {%s}},
  spec: {schedulerName: tutti-scheduler, priority: %s, nodeName: "%s", containers: [{name: c, image: i, resources: {requests: {cpu: "1", nvidia.com/gpu: "%s"}}}] %s}, status: {phase: %s}}`,
		name, name, labels, with["priority"], with["on"], with["gpus"], more(with["spec"]), phase)
}
