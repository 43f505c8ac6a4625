// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// manyNodes is a snapshot of so many.
type manyNodes struct {
	fwk.NodeInfoLister
	nodes map[string]fwk.NodeInfo
	list  []fwk.NodeInfo
}

func (m manyNodes) Get(name string) (fwk.NodeInfo, error) { return m.nodes[name], nil }

func (m manyNodes) List() ([]fwk.NodeInfo, error) { return m.list, nil }

// BenchmarkNotice is what every cycle pays where gangs run on 5,000 nodes.
func BenchmarkNotice(b *testing.B) {
	r, _, _ := roomScene()
	r.torn = func(types.NamespacedName) bool { return false }
	all := manyNodes{nodes: map[string]fwk.NodeInfo{}}
	for i := range 5000 {
		name := fmt.Sprintf("n%04d", i)
		node := framework.NewNodeInfo()
		node.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		pod := lostMember(name, name)
		info, err := framework.NewPodInfo(pod)
		if err != nil {
			b.Fatal(err)
		}
		node.AddPodInfo(info)
		all.nodes[name] = node
		all.list = append(all.list, node)
		r.runs(pod)
	}
	for b.Loop() {
		r.notice(all)
	}
}
