// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedulingv1alpha1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

func statusWith(conditions ...kubeflowv1.JobCondition) jobOption {
	return func(job *kubeflowv1.TFJob) {
		start := wireTime(testTime.Add(-time.Hour))
		job.Status.StartTime = &start
		for _, c := range conditions {
			setCondition(&job.Status, c, testTime.Add(-time.Hour))
		}
	}
}

// bare takes away what makeView supplies.
func bare(v *view) {
	clear(v.services)
	clear(v.groups)
}

func TestDecide(t *testing.T) {
	created, running_ := createdCondition(makeJob()), runningCondition(makeJob())
	psWorker := []jobOption{replicas(ps, 1), replicas(worker, 2)}
	job := func(opts ...jobOption) *kubeflowv1.TFJob { return makeJob(append(psWorker[:2:2], opts...)...) }
	onFailure := kubeflowv1.RestartPolicyOnFailure
	everything := []*corev1.Pod{makePod("ps", 0, running), makePod("worker", 0, running), makePod("worker", 1, running)}

	for name, tc := range map[string]struct {
		job    *kubeflowv1.TFJob
		pods   []*corev1.Pod
		change func(*view)
		want   []string
	}{
		"a new job gets its group, then services, then pods": {
			job(), nil, bare,
			[]string{"create group j", "create service j-ps-0", "create service j-worker-0", "create service j-worker-1",
				"create pod j-ps-0", "create pod j-worker-0", "create pod j-worker-1"}},
		"what is there is left alone": {
			job(), everything, nil, nil},
		"a missing service comes before a missing pod": {
			job(), everything[:2], func(v *view) { delete(v.services, "j-ps-0") },
			[]string{"create service j-ps-0", "create pod j-worker-1"}},
		"what was asked for is not asked for again": {
			job(), everything[:1], func(v *view) {
				bare(v)
				v.open[creation(kindPodGroup, "j")] = true
				v.open[creation(kindService, "j-ps-0")] = true
				v.open[creation(kindService, "j-worker-0")] = true
				v.open[creation(kindPod, "j-worker-1")] = true
			},
			[]string{"create service j-worker-1", "create pod j-worker-0"}},
		"a group on its way out holds everything up": {
			job(), nil, func(v *view) {
				clear(v.services)
				v.groups["j"].SetDeletionTimestamp(&metav1.Time{Time: testTime})
			}, nil},
		"a service on its way out holds the pods up": {
			job(), everything[:1], func(v *view) {
				delete(v.services, "j-worker-0")
				v.services["j-worker-1"].DeletionTimestamp = &metav1.Time{Time: testTime}
			}, []string{"create service j-worker-0"}},
		"a pod on its way out keeps its place": {
			makeJob(replicas(worker, 2, onFailure)), []*corev1.Pod{makePod("worker", 0, running), makePod("worker", 1, running, terminating)}, nil, nil},
		"a failed pod is restarted": {
			makeJob(replicas(worker, 2, onFailure)), makePods("worker", running, failed), nil, []string{"restart pod j-worker-1"}},
		"a failed pod that is going already is not deleted again": {
			makeJob(replicas(worker, 2, onFailure)), []*corev1.Pod{makePod("worker", 0, running), makePod("worker", 1, failed, terminating)}, nil, nil},
		"fewer replicas: the surplus goes, and does not count": {
			job(), append(makePods("worker", running, running, failed), makePod("ps", 0, running)),
			func(v *view) {
				v.services["j-worker-2"] = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "j-worker-2"}}
			},
			[]string{"delete pod j-worker-2", "delete service j-worker-2"}},
		"more replicas: the group is updated, the rest filled in": {
			job(), everything[:2], func(v *view) {
				v.groups["j"].(*schedulingv1alpha1.PodGroup).Spec.MinMember = 2
				delete(v.services, "j-worker-1")
			},
			[]string{"update group j", "create service j-worker-1", "create pod j-worker-1"}},
		"a job of no replicas gets nothing": {
			makeJob(replicas(worker, 0)), nil, bare, nil},
		"a verdict stops everything else": {
			job(), []*corev1.Pod{makePod("ps", 0, failed)}, bare, nil},

		"finished, None: only the group goes": {
			job(statusWith(created, succeededCondition(makeJob()))), everything, nil, []string{"delete group j"}},
		"finished, Running: what runs or waits goes, with its service": {
			job(cleaning(kubeflowv1.CleanPodPolicyRunning), statusWith(created, succeededCondition(makeJob()))),
			[]*corev1.Pod{makePod("ps", 0, running), makePod("worker", 0, succeeded), makePod("worker", 1, pending)}, nil,
			[]string{"delete pod j-ps-0", "delete pod j-worker-1", "delete service j-ps-0", "delete service j-worker-1", "delete group j"}},
		"finished, All: everything goes": {
			job(cleaning(kubeflowv1.CleanPodPolicyAll), statusWith(created, succeededCondition(makeJob()))),
			[]*corev1.Pod{makePod("worker", 0, succeeded)}, nil,
			[]string{"delete pod j-worker-0", "delete service j-ps-0", "delete service j-worker-0", "delete service j-worker-1", "delete group j"}},
		"finished and cleaned: nothing is left to do": {
			job(cleaning(kubeflowv1.CleanPodPolicyAll), statusWith(created, succeededCondition(makeJob()))), nil, bare, nil},
		"finished: no pod is made again": {
			job(statusWith(created, succeededCondition(makeJob()))), everything[1:], func(v *view) { clear(v.groups) }, nil},

		"suspended: everything goes": {
			job(suspended, statusWith(created, running_)), everything, nil,
			[]string{"delete pod j-ps-0", "delete pod j-worker-0", "delete pod j-worker-1",
				"delete service j-ps-0", "delete service j-worker-0", "delete service j-worker-1", "delete group j"}},
		"resumed too early: pods of before have to go first": {
			job(statusWith(created, suspendedCondition(makeJob()))), []*corev1.Pod{makePod("ps", 0, failed, terminating)}, bare, nil},
		"resumed: everything comes back": {
			job(statusWith(created, suspendedCondition(makeJob()))), nil, bare,
			[]string{"create group j", "create service j-ps-0", "create service j-worker-0", "create service j-worker-1",
				"create pod j-ps-0", "create pod j-worker-0", "create pod j-worker-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			v := makeView(t, tc.job, tc.pods...)
			if tc.change != nil {
				tc.change(v)
			}
			p := decide(v, testOptions, testTime)
			if diff := cmp.Diff(tc.want, actions(v, p)); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
			if got := len(actions(v, p)) == 0; got != p.isIdle() {
				t.Errorf("isIdle is %v", p.isIdle())
			}
		})
	}
}

// A suspension of a job that is over changes nothing, and while a job is suspended no limit ends it.
func TestSuspensionAndEndsLeaveEachOtherAlone(t *testing.T) {
	over := statusWith(createdCondition(makeJob()), succeededCondition(makeJob()))
	spent := func(job *kubeflowv1.TFJob) {
		job.Status.ReplicaStatuses = map[kubeflowv1.ReplicaType]*kubeflowv1.ReplicaStatus{worker: {Restarts: []kubeflowv1.ReplicaRestarts{{Faults: 9}}}}
	}
	for name, tc := range map[string]struct {
		job  *kubeflowv1.TFJob
		want []string
	}{
		"it has succeeded":             {makeJob(replicas(worker, 1), suspended, over, completedAtTime(testTime)), []string{"Created", "Succeeded"}},
		"it is beyond its restarts":    {makeJob(replicas(worker, 1, kubeflowv1.RestartPolicyOnFailure), suspended, limit(1), spent), []string{"Created", "Suspended"}},
		"it is beyond its deadline":    {makeJob(replicas(worker, 1), suspended, activeDeadline(1), startedAt(testTime.Add(-time.Hour))), []string{"Created", "Suspended"}},
		"its pods have just succeeded": {makeJob(replicas(worker, 1), suspended), []string{"Created", "Suspended"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := decide(makeView(t, tc.job, makePod("worker", 0, succeeded, exited(0))), testOptions, testTime)
			if diff := cmp.Diff(tc.want, describe(p.status)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWithoutPodGroupsNoneIsMade(t *testing.T) {
	v := makeView(t, makeJob(replicas(worker, 1)))
	bare(v)
	p := decide(v, Options{SchedulerName: "other"}, testTime)
	if diff := cmp.Diff([]string{"create service j-worker-0", "create pod j-worker-0"}, actions(v, p)); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
}

func TestSuspendAndResumeConditions(t *testing.T) {
	job := makeJob(replicas(worker, 1))
	step := func(name string, now time.Time, pods []*corev1.Pod, want ...string) *plan {
		t.Helper()
		v := makeView(t, job, pods...)
		if len(pods) == 0 {
			bare(v)
		}
		p := decide(v, testOptions, now)
		job.Status = p.status
		if diff := cmp.Diff(want, describe(job.Status)); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", name, diff)
		}
		return p
	}
	step("running", testTime, makePods("worker", running), "Created", "Running")
	start := *job.Status.StartTime

	suspended(job)
	p := step("suspended", testTime.Add(time.Minute), makePods("worker", running), "Created", "Running False", "Suspended")
	if diff := cmp.Diff([]string{"TFJobSuspended"}, reasons(p.events)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	p = step("still suspended", testTime.Add(time.Minute), nil, "Created", "Running False", "Suspended")
	if len(p.events) > 0 {
		t.Errorf("events again: %v", p.events)
	}
	if got := job.Status.ReplicaStatuses[worker].Active; got != 0 {
		t.Errorf("%d active pods of a suspended job", got)
	}
	if !job.Status.StartTime.Equal(&start) {
		t.Error("the start time changed with the suspension")
	}

	job.Spec.RunPolicy.Suspend = new(false)
	p = step("resumed", testTime.Add(2*time.Minute), nil, "Created", "Running False", "Suspended False")
	if diff := cmp.Diff([]string{"TFJobResumed"}, reasons(p.events)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if job.Status.State != kubeflowv1.JobCreated {
		t.Errorf("a resumed job shows %s", job.Status.State)
	}
	step("running again", testTime.Add(3*time.Minute), makePods("worker", running), "Created", "Suspended False", "Running")
	if want := testTime.Add(2 * time.Minute); !job.Status.StartTime.Time.Equal(want) {
		t.Errorf("started at %v, want the time of the resume, %v", job.Status.StartTime, want)
	}
}

func TestCreatedSuspended(t *testing.T) {
	v := makeView(t, makeJob(replicas(worker, 1), suspended))
	bare(v)
	p := decide(v, testOptions, testTime)
	if diff := cmp.Diff([]string{"Created", "Suspended"}, describe(p.status)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if p.status.StartTime != nil || !p.isIdle() {
		t.Errorf("started at %v, actions %v", p.status.StartTime, actions(v, p))
	}
}

func TestActiveCountsOfFinishedJobsEndWithTheirPods(t *testing.T) {
	failedJob := func() *kubeflowv1.TFJob {
		job := makeJob(replicas(worker, 2), cleaning(kubeflowv1.CleanPodPolicyRunning), statusWith(createdCondition(makeJob()),
			condition(kubeflowv1.JobFailed, corev1.ConditionTrue, kubeflowv1.TFJobFailedReason, "")))
		job.Status.ReplicaStatuses = map[kubeflowv1.ReplicaType]*kubeflowv1.ReplicaStatus{worker: {Active: 1, Failed: 1}}
		return job
	}
	for name, tc := range map[string]struct {
		pods []*corev1.Pod
		want int32
	}{
		"while a pod runs":    {makePods("worker", running, failed), 1},
		"when it has to go":   {[]*corev1.Pod{makePod("worker", 0, running, terminating), makePod("worker", 1, failed)}, 0},
		"when it is all over": {makePods("worker")[:0], 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := decide(makeView(t, failedJob(), tc.pods...), testOptions, testTime)
			if got := p.status.ReplicaStatuses[worker]; got.Active != tc.want || got.Failed != 1 {
				t.Errorf("got %+v, want %d active, 1 failed", got, tc.want)
			}
		})
	}
}

func TestJobsTooLargeForTFConfigAreWarned(t *testing.T) {
	for _, tc := range []struct {
		workers     int32
		dynamic     bool
		wantWarning bool
	}{{500, false, false}, {6000, false, true}, {6000, true, false}} {
		job := makeJob(replicas(worker, tc.workers, kubeflowv1.RestartPolicyNever))
		job.Spec.EnableDynamicWorker = tc.dynamic
		v := makeView(t, job)
		if got := slices.Contains(reasons(decide(v, testOptions, testTime).events), "EnvironmentTooLong"); got != tc.wantWarning {
			t.Errorf("%d workers, dynamic %t: warned %t, want %t", tc.workers, tc.dynamic, got, tc.wantWarning)
		}
		pod, err := newPod(v, newcomer{slot: v.slots()[tc.workers-1]}, testOptions)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range pod.Spec.Containers[0].Env {
			if isLong := len(e.Name)+len(e.Value)+2 > 128<<10; isLong != (tc.wantWarning && e.Name == "TF_CONFIG") {
				t.Errorf("%d workers, dynamic %t: %s has %d bytes", tc.workers, tc.dynamic, e.Name, len(e.Value))
			}
		}
	}
}

func TestTemplatesThatContradictTheJobAreNotedOnce(t *testing.T) {
	job := makeJob(replicas(worker, 1, kubeflowv1.RestartPolicyExitCode))
	job.Spec.TFReplicaSpecs[worker].Template.Spec.RestartPolicy = corev1.RestartPolicyAlways
	job.Spec.TFReplicaSpecs[worker].Template.Spec.SchedulerName = "other"
	p := decide(makeView(t, job), testOptions, testTime)
	if diff := cmp.Diff([]string{"SetPodTemplateRestartPolicy", "SetPodTemplateSchedulerName"}, reasons(p.events)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	job.Status = p.status
	if p = decide(makeView(t, job), testOptions, testTime); len(p.events) > 0 {
		t.Errorf("events again: %v", p.events)
	}
}
