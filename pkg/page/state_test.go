// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tutti-project/tutti/pkg/snapshot/sketch"
	"github.com/tutti-project/tutti/pkg/topology"
)

var rewrite = flag.Bool("rewrite", false, "write the states that the tests see to testdata")

// cluster has what the page tells apart: a gang that runs, with PS pods without
// devices, one that waits, a suspended job, one of another controller, a node that
// is closed, one without labels, links, a GPU that is ill and one given by name.
const cluster = `
node n1 r1 gpus=4
node n2 r1 gpus=4
node n3 r2 gpus=4 node=unschedulable:~true
object {apiVersion: v1, kind: Node, metadata: {name: bare}, status: {allocatable: {nvidia.com/gpu: "2"}, conditions: [{type: Ready, status: "False"}]}}
gang trains pods=2 gpus=2 on=n1
gang waits pods=3 gpus=4 annotations={tutti.dev/required-topology:~rack}
job queued workers=3 gpus=2
pod alone on=n2 gpus=1
pod cpu on=n2
object {apiVersion: v1, kind: Pod, metadata: {name: trains-ps-0, namespace: ns, labels: {scheduling.x-k8s.io/pod-group: trains}}, spec: {nodeName: n2, containers: [{name: c}]}, status: {phase: Pending}}
object {apiVersion: v1, kind: Pod, metadata: {name: set-x, namespace: ns, ownerReferences: [{kind: ReplicaSet, name: set, apiVersion: apps/v1, uid: u, controller: true}]}, spec: {nodeName: n3, containers: [{name: c, resources: {requests: {nvidia.com/gpu: "1"}}}]}, status: {phase: Running}}
object {apiVersion: v1, kind: Pod, metadata: {name: over, namespace: ns}, spec: {nodeName: n1, containers: [{name: c, resources: {requests: {nvidia.com/gpu: "4"}}}]}, status: {phase: Succeeded}}
object {apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, metadata: {name: empty, namespace: ns}, spec: {minMember: 2}, status: {conditions: [{type: GangPlaced, status: "False", reason: Incomplete, message: it has 0 of 2 pods}]}}
object {apiVersion: topology.tutti.dev/v1alpha1, kind: NodeTopology, metadata: {name: n1}, spec: {gpus: [{index: 0, uuid: a}, {index: 1, uuid: b}, {index: 2, uuid: c}, {index: 3, uuid: d}], links: [{from: 0, to: 2, nvLinks: 4, pcie: SYS}, {from: 1, to: 3, nvLinks: 4, pcie: SYS}]}, status: {given: [{namespace: ns, pod: trains-0, gpus: [a, c]}, {namespace: ns, pod: trains-1, gpus: [b, d]}]}}
object {apiVersion: topology.tutti.dev/v1alpha1, kind: NodeTopology, metadata: {name: n2}, spec: {gpus: [{index: 0, uuid: e}, {index: 1, uuid: f}, {index: 2, uuid: g}, {index: 3, uuid: h}]}, status: {unhealthy: [{uuid: e, reason: XidError}]}}
object {apiVersion: topology.tutti.dev/v1alpha1, kind: NodeTopology, metadata: {name: n3}, spec: {gpus: [{index: 0, uuid: i}, {index: 0, uuid: i}]}}
`

// stateOfSketch is the state of a sketch with each gang, host and domain on a line.
func stateOfSketch(t *testing.T, lines string) string {
	t.Helper()
	view, err := ViewOf(sketch.Cluster(t, lines))
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(Of(view, topology.DefaultLevels()))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("},{", "},\n  {", ":[{", ":[\n  {", "}],", "}],\n").Replace(string(data))
	return text + "\n"
}

func TestState(t *testing.T) {
	for name, lines := range map[string]string{
		"cluster": cluster,
		"empty":   "",
		"native": `
node n1 r1 gpus=8
node n2 r1 gpus=8
native trains pods=2 gpus=4 on=n1
native waits pods=3 gpus=4 minimum=2 group=schedulingConstraints:~{topology:~[{key:~topology.tutti.dev/rack}]}
object {apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, metadata: {name: waits, namespace: ns}, spec: {minMember: 9}}`,
		"no devices": `
node n1 r1
node n2 r2`,
	} {
		t.Run(name, func(t *testing.T) {
			got := stateOfSketch(t, lines)
			path := filepath.Join("testdata", strings.ReplaceAll(name, " ", "-")+".json")
			if *rewrite {
				if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatalf("%v (-rewrite makes it)", err)
			}
			if got != string(want) {
				t.Errorf("the state is\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestStateDoesNotDependOnTheOrderOfObjects(t *testing.T) {
	s := sketch.Cluster(t, cluster)
	for range 20 {
		view, err := ViewOf(s)
		if err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(Of(view, topology.DefaultLevels()))
		if err != nil {
			t.Fatal(err)
		}
		if first := stateOfSketch(t, cluster); strings.Join(strings.Fields(first), "") != strings.Join(strings.Fields(string(data)), "") {
			t.Fatalf("two states of one cluster:\n%s\n%s", first, data)
		}
		for i, j := 0, len(s.Objects)-1; i < j; i, j = i+1, j-1 {
			s.Objects[i], s.Objects[j] = s.Objects[j], s.Objects[i]
		}
		s.Objects = append(s.Objects[3:], s.Objects[:3]...)
	}
}
