// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// Tables of training-operator's own tests, with its outcomes; docs/cases.md says where the rest of them is.

// TestUpstreamsPodsAndServices: with these pods there, and a service for each, so many of both are created, and this is the status.
func TestUpstreamsPodsAndServices(t *testing.T) {
	big := func(opts ...jobOption) *kubeflowv1.TFJob {
		return makeJob(append([]jobOption{replicas(worker, 4), replicas(ps, 2)}, opts...)...)
	}
	both := func(workers, servers []*corev1.Pod) []*corev1.Pod { return slices.Concat(workers, servers) }
	for name, tc := range map[string]struct {
		job         *kubeflowv1.TFJob
		pods        []*corev1.Pod
		wantCreated int
		wantDeleted []string
		want        string // the last condition that holds
		wantCounts  string // workers and PS: active/succeeded/failed
	}{
		"a local job is created":    {job: makeJob(replicas(worker, 1)), wantCreated: 1, want: "Created", wantCounts: "0/0/0 -"},
		"a job is created":          {job: big(), wantCreated: 6, want: "Created", wantCounts: "0/0/0 0/0/0"},
		"all are pending":           {job: big(), pods: both(makePods("worker", pending, pending, pending, pending), makePods("ps", pending, pending)), want: "Created", wantCounts: "0/0/0 0/0/0"},
		"all are running":           {job: big(), pods: both(makePods("worker", running, running, running, running), makePods("ps", running, running)), want: "Running", wantCounts: "4/0/0 2/0/0"},
		"some are pending":          {job: big(), pods: both(makePods("worker", pending, pending), makePods("ps", pending)), wantCreated: 3, want: "Created", wantCounts: "0/0/0 0/0/0"},
		"some pending, one running": {job: big(), pods: both(makePods("worker", pending, pending, running), makePods("ps", pending)), wantCreated: 2, want: "Running", wantCounts: "1/0/0 0/0/0"},
		"some pending, one is done": {job: big(), pods: both(makePods("worker", pending, pending, succeeded), makePods("ps", pending)), wantCreated: 2, want: "Created", wantCounts: "0/1/0 0/0/0"},
		"all have succeeded":        {job: big(), pods: both(makePods("worker", succeeded, succeeded, succeeded, succeeded), makePods("ps", succeeded, succeeded)), want: "Succeeded", wantCounts: "0/4/0 0/2/0"},
		"dynamic workers, fewer": {job: makeJob(replicas(worker, 2), dynamic), pods: makePods("worker", running, running, running),
			wantDeleted: []string{"delete pod j-worker-2", "delete service j-worker-2"}, want: "Running", wantCounts: "2/0/0 -"},
		"dynamic workers, more": {job: makeJob(replicas(worker, 3), dynamic), pods: makePods("worker", running), wantCreated: 2, want: "Running", wantCounts: "1/0/0 -"},
	} {
		t.Run(name, func(t *testing.T) {
			v := makeView(t, tc.job, tc.pods...)
			clear(v.services)
			for _, pod := range tc.pods {
				service := &corev1.Service{}
				service.Name = pod.Name
				v.services[pod.Name] = service
			}
			p := decide(v, testOptions, testTime)
			if len(p.createPods) != tc.wantCreated || len(p.createServices) != tc.wantCreated {
				t.Errorf("%d pods and %d services are created, want %d of both", len(p.createPods), len(p.createServices), tc.wantCreated)
			}
			deleted := slices.DeleteFunc(actions(v, p), func(a string) bool { return !strings.HasPrefix(a, "delete") })
			if diff := cmp.Diff(tc.wantDeleted, deleted, cmp.Transformer("none", func(s []string) string { return strings.Join(s, "\n") })); diff != "" {
				t.Errorf("deleted (-want +got):\n%s", diff)
			}
			counts := upstreamCounts(p.status, worker) + " " + upstreamCounts(p.status, ps)
			if string(p.status.State) != tc.want || counts != tc.wantCounts {
				t.Errorf("%s, counts %s; want %s, %s", p.status.State, counts, tc.want, tc.wantCounts)
			}
			if p.status.StartTime == nil {
				t.Error("it has no start time")
			}
		})
	}
}

func upstreamCounts(status kubeflowv1.JobStatus, kind kubeflowv1.ReplicaType) string {
	rs := status.ReplicaStatuses[kind]
	if rs == nil {
		return "-"
	}
	return fmt.Sprintf("%d/%d/%d", rs.Active, rs.Succeeded, rs.Failed)
}

// TestUpstreamsCleanUp: what is left of a job of 4 workers and 2 PS, and of jobs of a single pod, when it is over or suspended.
func TestUpstreamsCleanUp(t *testing.T) {
	big := []jobOption{replicas(worker, 4), replicas(ps, 2)}
	one := []jobOption{replicas(worker, 1)}
	all := func(phase corev1.PodPhase) []*corev1.Pod {
		return slices.Concat(makePods("worker", phase, phase, phase, phase), makePods("ps", phase, phase))
	}
	over := statusWith(createdCondition(makeJob()), succeededCondition(makeJob()))
	lost := statusWith(createdCondition(makeJob()), condition(kubeflowv1.JobFailed, corev1.ConditionTrue, kubeflowv1.TFJobFailedReason, ""))
	for name, tc := range map[string]struct {
		opts   []jobOption
		policy kubeflowv1.CleanPodPolicy
		pods   []*corev1.Pod
		want   int // pods, and as many services
	}{
		"succeeded, All, pods run":             {append(big, over), kubeflowv1.CleanPodPolicyAll, all(running), 0},
		"succeeded, Running, pods run":         {append(big, over), kubeflowv1.CleanPodPolicyRunning, all(running), 0},
		"succeeded, Running, pods are done":    {append(big, over), kubeflowv1.CleanPodPolicyRunning, all(succeeded), 6},
		"succeeded, None, pods are done":       {append(big, over), kubeflowv1.CleanPodPolicyNone, all(succeeded), 6},
		"succeeded, Running, one pod is done":  {append(one, over), kubeflowv1.CleanPodPolicyRunning, makePods("worker", succeeded), 1},
		"succeeded, All, one pod is done":      {append(one, over), kubeflowv1.CleanPodPolicyAll, makePods("worker", succeeded), 0},
		"failed, None, one pod is lost":        {append(one, lost), kubeflowv1.CleanPodPolicyNone, makePods("worker", failed), 1},
		"suspended, Running, whatever is left": {append(one, suspended), kubeflowv1.CleanPodPolicyRunning, makePods("worker", succeeded), 0},
		"suspended, None, whatever is left":    {append(one, suspended), kubeflowv1.CleanPodPolicyNone, makePods("worker", running), 0},
	} {
		t.Run(name, func(t *testing.T) {
			v := makeView(t, makeJob(append(tc.opts, cleaning(tc.policy))...), tc.pods...)
			p := decide(v, testOptions, testTime)
			pods, services := len(v.pods)-len(p.deletePods), len(v.services)-len(p.deleteServices)
			if pods != tc.want || services != tc.want {
				t.Errorf("%d pods and %d services are left, want %d of both", pods, services, tc.want)
			}
		})
	}
}
