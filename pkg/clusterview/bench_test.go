// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// BenchmarkPlanner reads 5,000 nodes and their NodeTopology objects: all of them for
// the first time, ten of which agents said something new, and ten that only beat.
func BenchmarkPlanner(b *testing.B) {
	const nodes = 5000
	now := noon
	var known Topologies
	var infos []fwk.NodeInfo
	all := map[string][]string{}
	for i := range nodes {
		name := fmt.Sprintf("n%04d", i)
		infos = append(infos, infoOf(node(name, fmt.Sprint("r", i/50))))
		object := readTopology(b, []string{"dgx-1v", "hgx-h100"}[i%2], name)
		all[name] = object.Status.Free
		known.Set(object)
	}
	builder := func() *Builder {
		made := NewBuilder(rackLevel)
		made.Follow(&known, func() time.Time { return now })
		made.Planner(made.Build(infos), nil)
		return made
	}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			builder()
		}
	})
	kept := builder()
	hosts := kept.Build(infos)
	say := func(b *testing.B, free func(i int) int) {
		for i := 0; b.Loop(); i++ {
			for host := range 10 {
				object := known.of(fmt.Sprintf("n%04d", host*400)).DeepCopy()
				object.Status.HeartbeatTime = &metav1.Time{Time: now}
				object.Status.Free = all[object.Name][:free(i)]
				known.Set(object)
			}
			kept.Planner(hosts, nil)
		}
	}
	b.Run("ten beat", func(b *testing.B) { say(b, func(int) int { return 8 }) })
	b.Run("ten changed", func(b *testing.B) { say(b, func(i int) int { return 7 - i%2 }) })
}
