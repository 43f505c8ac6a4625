// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

func TestLostRanksReturnToTheirSlice(t *testing.T) {
	tree := NewBuilder(rackLevel).Build([]fwk.NodeInfo{infoOf(node("a", "r1")), infoOf(node("b", "r2"))}).Tree
	on := func(index int, name string) *v1.Pod {
		pod := replica("worker", index, gpus(1))
		pod.Spec.NodeName = name
		return pod
	}
	waiting := []*v1.Pod{replica("worker", 1, gpus(1)), replica("worker", 5, gpus(1))}
	for i := 8; i < 12; i++ {
		waiting = append(waiting, replica("worker", i, gpus(1)))
	}
	roles := BesideRunning(RolesOf(waiting), []*v1.Pod{on(0, "a"), on(2, "a"), on(4, "b")}, tree, 4, 1)
	var got []string
	for i, line := range drawn(roles) {
		if in := roles[i].Within; in != nil {
			line += " in " + tree.Describe(*in)
		}
		got = append(got, line)
	}
	want := []string{
		"worker: job-worker-8 job-worker-9 job-worker-10 job-worker-11",
		"worker (slice 0): job-worker-1 in rack r1",
		"worker (slice 1): job-worker-5 in rack r2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := fmt.Sprint(drawn(BesideRunning(RolesOf(waiting), nil, tree, 4, 1))); got != fmt.Sprint(drawn(RolesOf(waiting))) {
		t.Errorf("nothing runs, but the roles became %s", got)
	}
}
