// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package browser tests the page of kubectl tutti ui in a real browser.
package browser

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"testing"
)

// fabric is a cluster to be written as a snapshot. It has a module of its own and
// reads nothing of the product: what is tested is the program.
type fabric struct {
	items []any
	hosts []string // names, in the order of the tree
	free  []int    // devices by host
}

type object = map[string]any

const gpusPerHost = 8

// newFabric has spines of racks of hosts of 8 GPUs, of which every third tells its
// links.
func newFabric(spines, racks, hosts int) *fabric {
	f := &fabric{}
	for s := range spines {
		for r := range racks {
			for h := range hosts {
				f.addHost(fmt.Sprintf("s%d", s+1), fmt.Sprintf("r%d", r+1), fmt.Sprintf("n%04d", 1+h+hosts*(r+racks*s)))
			}
		}
	}
	return f
}

func (f *fabric) addHost(spine, rack, name string) {
	capacity := object{"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": fmt.Sprint(gpusPerHost)}
	f.add("v1", "Node", object{"name": name, "labels": object{
		"kubernetes.io/hostname": name, "topology.tutti.dev/spine": spine, "topology.tutti.dev/rack": rack,
	}}, object{"status": object{"allocatable": capacity, "capacity": capacity}})
	switch len(f.hosts) % 3 {
	case 0:
		f.addTopology(name, func(int, int) int { return 18 })
	case 1: // two sets of four
		f.addTopology(name, func(a, b int) int {
			if a/4 == b/4 {
				return 4
			}
			return 0
		})
	}
	f.hosts = append(f.hosts, name)
	f.free = append(f.free, gpusPerHost)
}

func (f *fabric) addTopology(name string, nvlinks func(a, b int) int) {
	var gpus, links []any
	for a := range gpusPerHost {
		gpus = append(gpus, object{"index": a, "uuid": fmt.Sprintf("GPU-%s-%d", name, a), "model": "NVIDIA H100 80GB HBM3", "numaNode": a / 4})
		for b := a + 1; b < gpusPerHost; b++ {
			pcie := "NODE"
			if a/4 != b/4 {
				pcie = "SYS"
			}
			links = append(links, object{"from": a, "to": b, "nvLinks": nvlinks(a, b), "pcie": pcie})
		}
	}
	f.add("topology.tutti.dev/v1alpha1", "NodeTopology", object{"name": name}, object{"spec": object{"gpus": gpus, "links": links}, "status": object{"freeCount": gpusPerHost}})
}

func (f *fabric) add(apiVersion, kind string, metadata, rest object) {
	o := object{"apiVersion": apiVersion, "kind": kind, "metadata": metadata}
	maps.Copy(o, rest)
	f.items = append(f.items, o)
}

// gang is a group of pods, each on the next host from first that has room, or on
// none if first is negative.
func (f *fabric) gang(namespace, name string, pods, gpus, first int, verdict string) {
	status, annotations := object{}, object{}
	if verdict != "" {
		annotations["tutti.dev/required-topology"] = "rack"
		status["conditions"] = []any{object{"type": "GangPlaced", "status": "False", "reason": "Unschedulable", "message": verdict}}
	}
	f.add("scheduling.x-k8s.io/v1alpha1", "PodGroup", object{"name": name, "namespace": namespace, "annotations": annotations}, object{"spec": object{"minMember": pods}, "status": status})
	for i := range pods {
		node, phase := "", "Pending"
		if first >= 0 {
			for f.free[first] < gpus {
				first++
			}
			f.free[first] -= gpus
			node, phase = f.hosts[first], "Running"
		}
		f.pod(namespace, fmt.Sprintf("%s-worker-%d", name, i), name, node, phase, gpus)
	}
}

func (f *fabric) pod(namespace, name, gang, node, phase string, gpus int) {
	spec := object{"schedulerName": "tutti-scheduler", "priority": 0, "containers": []any{object{
		"name": "tensorflow", "image": "i", "resources": object{"requests": object{"cpu": "4", "nvidia.com/gpu": fmt.Sprint(gpus)}},
	}}}
	if node != "" {
		spec["nodeName"] = node
	}
	f.add("v1", "Pod", object{"name": name, "namespace": namespace, "uid": namespace + "-" + name, "labels": object{"scheduling.x-k8s.io/pod-group": gang}},
		object{"spec": spec, "status": object{"phase": phase}})
}

// change edits the object of a kind and name.
func (f *fabric) change(kind, name string, edit func(object)) {
	for _, item := range f.items {
		o := item.(object)
		if o["kind"] == kind && o["metadata"].(object)["name"] == name {
			edit(o)
		}
	}
}

// job is a TFJob that has no pods, for it is suspended.
func (f *fabric) job(namespace, name string, workers, gpus int) {
	f.add("kubeflow.org/v1", "TFJob", object{"name": name, "namespace": namespace, "uid": name}, object{"spec": object{
		"runPolicy": object{"suspend": true},
		"tfReplicaSpecs": object{"Worker": object{"replicas": workers, "template": object{"spec": object{"containers": []any{
			object{"name": "tensorflow", "image": "i", "resources": object{"limits": object{"nvidia.com/gpu": fmt.Sprint(gpus)}}},
		}}}}},
	}})
}

// write writes the snapshot.
func (f *fabric) write(t *testing.T) string {
	t.Helper()
	data, err := json.Marshal(object{"apiVersion": "v1", "kind": "List", "metadata": object{"annotations": object{"tutti.dev/taken": "2026-11-30T06:00:00Z"}}, "items": f.items})
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir() + "/cluster.json"
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// small is a cluster for looking at: 64 hosts, gangs of all sizes, some that wait.
func small() *fabric {
	f := newFabric(2, 4, 8)
	f.gang("vision", "resnet-large", 16, 8, 0, "")
	f.gang("nlp", "bert-base", 8, 4, 16, "")
	f.gang("nlp", "bert-ablation-1", 4, 2, 20, "")
	f.gang("nlp", "bert-ablation-2", 4, 2, 21, "")
	f.gang("speech", "conformer", 8, 8, 24, "")
	f.gang("recsys", "dlrm-ps", 12, 2, 32, "")
	f.gang("recsys", "two-tower", 6, 3, 35, "")
	f.gang("vision", "vit-sweep-7", 10, 8, 40, "")
	f.gang("speech", "tts", 3, 5, 52, "")
	f.gang("vision", "mae", 4, 8, 56, "")
	f.gang("nlp", "gpt-pretrain", 6, 8, -1, "no rack takes all 6 pods: best is rack r4 (s2/r4), which has room for 4 of 6 worker (nvidia.com/gpu short by 16)")
	f.gang("recsys", "tiny", 1, 8, -1, "")
	f.job("research", "diffusion-queued", 4, 8)
	f.change("Node", "n0056", func(o object) { o["spec"] = object{"unschedulable": true} })
	f.change("NodeTopology", "n0052", func(o object) {
		o["status"] = object{"freeCount": 7, "unhealthy": []any{object{"uuid": "GPU-n0052-6", "reason": "XidError", "message": "Xid 79"}}}
	})
	return f
}

// large is 5,000 hosts, nine tenths taken by some 500 gangs.
func large() *fabric {
	f := newFabric(10, 25, 20)
	sizes := []int{4, 16, 2, 8, 32, 1, 12, 64, 6, 24}
	next := 0
	for i := 0; next < 4500; i++ {
		pods := sizes[i%len(sizes)]
		f.gang(fmt.Sprintf("team-%d", i%12), fmt.Sprintf("train-%03d", i), pods, 8>>(i%7/4), next, "")
		for next < len(f.free)-1 && f.free[next] == 0 {
			next++
		}
		next += i % 3 / 2
	}
	for i := range 40 {
		f.gang(fmt.Sprintf("team-%d", i%12), fmt.Sprintf("waits-%02d", i), 64, 8, -1, "no rack takes all 64 pods: rack r9 (s4/r9) is the nearest fit, with room for 11 of 64 worker")
	}
	return f
}
