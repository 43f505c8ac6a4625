// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package machines makes NodeTopology objects of the machines in pkg/topology/testdata/hosts, as an
// agent would publish them.
package machines

import (
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
	"github.com/tutti-project/tutti/pkg/topology"
)

// Read makes the object of a node whose GPUs are those of a file, without a status.
func Read(path, node string) (*v1alpha1.NodeTopology, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	file, err := topology.ParseHostFile(string(text))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	object := &v1alpha1.NodeTopology{ObjectMeta: metav1.ObjectMeta{Name: node}}
	for i, numa := range file.NUMA {
		gpu := v1alpha1.GPU{Index: int32(i), UUID: UUID(node, i), NVLinks: int32(file.Rates.NVLinks), NVLinkMBps: int32(file.Rates.NVLink)}
		if numa >= 0 {
			gpu.NUMANode = new(int32(numa))
		}
		object.Spec.GPUs = append(object.Spec.GPUs, gpu)
		for j := range i {
			link := v1alpha1.Link{From: int32(j), To: int32(i), NVLinks: int32(file.Links[i][j].Bonded), PCIe: v1alpha1.PCIeAcrossNUMANode}
			if link.NVLinks == 0 {
				link.PCIe = v1alpha1.PCIeLevel(file.Links[i][j].String())
			}
			object.Spec.Links = append(object.Spec.Links, link)
		}
	}
	return object, nil
}

// UUID is that of a node's GPU by its index.
func UUID(node string, index int) string { return fmt.Sprintf("GPU-%s-%d", node, index) }

// Report writes the status: what pods, by namespace/name, hold by index is not free.
func Report(object *v1alpha1.NodeTopology, now time.Time, given map[string][]int) {
	held := map[int]bool{}
	var pods []string
	for pod, gpus := range given {
		pods = append(pods, pod)
		for _, i := range gpus {
			held[i] = true
		}
	}
	status := v1alpha1.NodeTopologyStatus{
		Fingerprint: v1alpha1.FingerprintOf(pods), HeartbeatTime: &metav1.Time{Time: now}, ObservedGeneration: object.Generation,
		Conditions: []metav1.Condition{{
			Type: v1alpha1.NodeTopologyReady, Status: metav1.ConditionTrue, Reason: "Seen", LastTransitionTime: metav1.Time{Time: now},
		}},
	}
	for i := range object.Spec.GPUs {
		if !held[i] {
			status.Free = append(status.Free, object.Spec.GPUs[i].UUID)
		}
	}
	status.FreeCount = int32(len(status.Free))
	object.Status = status
}
