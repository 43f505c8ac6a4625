// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

func TestIndexSetsReadBack(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "",
		"0":                   "0",
		"2,0,1":               "0-2",
		"0,2-4,9":             "0,2-4,9",
		"5-3,x,-1,7":          "7",
		"0-2147483647":        "",
		"99999999999999999,1": "1",
	} {
		if got := parseIndexes(text).String(); got != want {
			t.Errorf("%q reads back as %q, want %q", text, got, want)
		}
	}
}

func reason(r string) podOption { return func(pod *corev1.Pod) { pod.Status.Reason = r } }

func message(m string) podOption { return func(pod *corev1.Pod) { pod.Status.Message = m } }

func disrupted(pod *corev1.Pod) {
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue})
}

// rejected is what a kubelet makes of a pod that it does not take: rejectPod of pkg/kubelet/kubelet.go, Kubernetes 1.34 to 1.37.
func rejected(why, message string) podOption {
	return func(pod *corev1.Pod) {
		pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: why, Message: "Pod was rejected: " + message}
	}
}

// vanished is what a kubelet makes of a container that it does not find when its pod ends, so of each that has never run: TerminatePod of
// pkg/kubelet/status/status_manager.go.
var vanished = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
	Reason: "ContainerStatusUnknown", Message: "The container could not be located when the pod was terminated", ExitCode: 137,
}}

// neverBegun is a pod that ended while its images were pulled.
func neverBegun(pod *corev1.Pod) {
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "tensorflow", State: vanished}, {Name: "sidecar", State: vanished}}
}

// initializing is a pod that ended while the image of its first container was pulled.
func initializing(pod *corev1.Pod) {
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "fetch", State: vanished}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "tensorflow",
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}}}
}

// initialized: an init container of the pod has done its work.
func initialized(pod *corev1.Pod) {
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "fetch", ContainerID: "containerd://1",
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", ContainerID: "containerd://1"}}}}
}

// lostSight is a pod that ran and whose container the kubelet does not find when it ends.
func lostSight(change func(*corev1.ContainerStatus)) podOption {
	return func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "tensorflow", State: vanished}}
		change(&pod.Status.ContainerStatuses[0])
	}
}

func attempt(n string) podOption {
	return func(pod *corev1.Pod) { pod.Annotations = map[string]string{"tutti.dev/attempt": n} }
}

func restarted(n int32) podOption {
	return func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: "tensorflow", RestartCount: n})
	}
}

func uid(id types.UID) podOption { return func(pod *corev1.Pod) { pod.UID = id } }

func limit(n int32) jobOption {
	return func(job *kubeflowv1.TFJob) { job.Spec.RunPolicy.BackoffLimit = &n }
}

func TestWhatTakesAPodFromAJobIsNoFaultOfItsProgram(t *testing.T) {
	const replaced = -1 // no fault, and replaced under every policy
	const lowOnDisk = "The node was low on resource: ephemeral-storage. "
	for name, tc := range map[string]struct {
		opts []podOption
		want int32
	}{
		"killed":                                            {[]podOption{exited(137)}, 1},
		"out of memory":                                     {[]podOption{exited(137), reason("OOMKilled")}, 1},
		"its own deadline":                                  {[]podOption{exited(143), reason("DeadlineExceeded")}, 1},
		"no word about it":                                  {nil, 1},
		"B07 evicted":                                       {[]podOption{reason("Evicted")}, 0},
		"B07 preempted":                                     {[]podOption{reason("Preempted")}, 0},
		"preempted, and the program said 1":                 {[]podOption{exited(1), disrupted}, 0},
		"the node shut down":                                {[]podOption{exited(143), reason("Terminated")}, 0},
		"the node is lost":                                  {[]podOption{reason("NodeLost")}, 0},
		"B06 deleted by somebody":                           {[]podOption{exited(143), terminating}, 0},
		"the kubelet has no CPU":                            {[]podOption{reason("OutOfcpu")}, replaced},
		"the kubelet has no GPU":                            {[]podOption{reason("OutOfnvidia.com/gpu")}, replaced},
		"the device plugin refused":                         {[]podOption{reason("UnexpectedAdmissionError")}, replaced},
		"the topology manager refused":                      {[]podOption{reason("TopologyAffinityError")}, replaced},
		"the node's labels changed in the instant":          {[]podOption{reason("NodeAffinity")}, replaced},
		"the kubelet has no GPU, in its words":              {[]podOption{rejected("OutOfnvidia.com/gpu", "Node didn't have enough resource: nvidia.com/gpu, requested: 8, used: 8, capacity: 8")}, replaced},
		"the node was about to shut down":                   {[]podOption{rejected("NodeShutdown", "Pod was rejected as the node is shutting down.")}, replaced}, // nodeshutdown_manager.go
		"the node was short of disk before":                 {[]podOption{rejected("Evicted", "The node had condition: [DiskPressure]. ")}, replaced},            // eviction_manager.go, Admit
		"deleted before it ran":                             {[]podOption{neverBegun, terminating}, replaced},
		"drained before it ran":                             {[]podOption{neverBegun, disrupted, terminating}, replaced},
		"drained before its first container ran":            {[]podOption{initializing, disrupted, terminating}, replaced},
		"evicted before it ran":                             {[]podOption{neverBegun, disrupted, reason("Evicted"), message(lowOnDisk)}, replaced},
		"the node shut down before it ran":                  {[]podOption{neverBegun, disrupted, reason("Terminated"), message("Pod was terminated in response to imminent node shutdown.")}, replaced},
		"deleted before it had a node":                      {[]podOption{terminating}, replaced}, // gcUnscheduledTerminating of pkg/controller/podgc/gc_controller.go
		"its node was gone before it had said a word of it": {[]podOption{disrupted}, replaced},   // gcOrphaned there
		"its own deadline, before it ran":                   {[]podOption{neverBegun, reason("DeadlineExceeded")}, 1},
		"evicted while it ran":                              {[]podOption{exited(137), disrupted, reason("Evicted"), message(lowOnDisk)}, 0},
		"deleted, and its container is not found":           {[]podOption{terminating, lostSight(func(s *corev1.ContainerStatus) { s.ContainerID = "containerd://1" })}, 0},
		"deleted, and its container was lost before":        {[]podOption{terminating, lostSight(func(s *corev1.ContainerStatus) { s.LastTerminationState = vanished })}, 0}, // kubelet_pods.go: "used to be Running"
		"deleted between two runs":                          {[]podOption{terminating, lostSight(func(s *corev1.ContainerStatus) { s.RestartCount = 1 })}, 1},                // that restart
		"deleted after its first container":                 {[]podOption{neverBegun, terminating, initialized}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for _, policy := range []kubeflowv1.RestartPolicy{kubeflowv1.RestartPolicyOnFailure, kubeflowv1.RestartPolicyExitCode} {
				job := makeJob(replicas(worker, 2, policy), limit(0))
				p := decide(makeView(t, job, makePod("worker", 0, running), makePod("worker", 1, failed, tc.opts...)), testOptions, testTime)
				if got := p.status.ReplicaStatuses[worker].Restarts[0].Faults; got != max(0, tc.want) {
					t.Errorf("%s: %d faults, want %d", policy, got, tc.want)
				}
				if got := isFinished(&p.status); got != (tc.want > 0) {
					t.Errorf("%s: with a limit of no restart, finished is %v", policy, got)
				}
			}
			job := makeJob(replicas(worker, 2))
			pod := makePod("worker", 1, failed, tc.opts...)
			p := decide(makeView(t, job, makePod("worker", 0, running), pod), testOptions, testTime)
			isDeleted := len(p.restartPods) > 0 || pod.DeletionTimestamp != nil && tc.want == replaced
			if isTrue(&p.status, kubeflowv1.JobFailed) == (tc.want == replaced) || isDeleted != (tc.want == replaced) {
				t.Errorf("under Never what has run is not replaced, and what has not is; conditions %v, replaced %d", describe(p.status), len(p.restartPods))
			}
		})
	}
}

// B22: exit codes of 128 and above restart a pod as often as the limit says, whatever becomes of pods and controllers in between.
func TestB22BackoffLimitCountsReplacedPods(t *testing.T) {
	job := makeJob(replicas(worker, 1, kubeflowv1.RestartPolicyExitCode), limit(2))
	now := testTime
	for i, pod := range []*corev1.Pod{
		makePod("worker", 0, failed, exited(137)),
		makePod("worker", 0, failed, exited(137), attempt("1")),
		makePod("worker", 0, failed, exited(137), attempt("2")),
	} {
		for range 2 { // a failure counts once, however often it is seen
			p := decide(makeView(t, job, pod), testOptions, now)
			job.Status = p.status
		}
		if got, want := isFinished(&job.Status), i == 2; got != want {
			t.Fatalf("after failure %d finished is %v", i+1, got)
		}
		now = now.Add(time.Minute)
		if v := makeView(t, job); i < 2 {
			p := decide(v, testOptions, now)
			if len(p.createPods) != 1 || p.createPods[0].attempt != int32(i+1) {
				t.Fatalf("after failure %d pods to make: %v", i+1, p.createPods)
			}
			made, err := newPod(v, p.createPods[0], testOptions)
			if err != nil || attemptOf(made) != int32(i+1) {
				t.Errorf("the next pod bears attempt %d, want %d (%v)", attemptOf(made), i+1, err)
			}
		}
	}
	last := job.Status.Conditions[len(job.Status.Conditions)-1]
	if want := "TFJob j failed because it has reached its backoff limit, 2."; last.Message != want || last.Reason != "TFJobFailed" {
		t.Errorf("got %s: %s", last.Reason, last.Message)
	}
	if job.Status.CompletionTime == nil {
		t.Error("B27 no completionTime")
	}
	if p := decide(makeView(t, job), testOptions, now); len(p.createPods) > 0 {
		t.Error("a pod is made again")
	}
}

func TestBackoffLimitCountsContainerRestarts(t *testing.T) {
	onFailure := kubeflowv1.RestartPolicyOnFailure
	four := func(n int32) []*corev1.Pod {
		var pods []*corev1.Pod
		for i := range 4 {
			pods = append(pods, makePod("worker", i, running, restarted(n)))
		}
		return pods
	}
	for name, tc := range map[string]struct {
		job  *kubeflowv1.TFJob
		pods []*corev1.Pod
		want bool
	}{
		"no limit":                               {makeJob(replicas(worker, 4, onFailure)), four(100), false},
		"limit 0, no restart":                    {makeJob(replicas(worker, 4, onFailure), limit(0)), four(0), false},
		"limit 0, a restart":                     {makeJob(replicas(worker, 1, onFailure), limit(0)), four(1)[:1], true},
		"limit 3, restarted 3 times":             {makeJob(replicas(worker, 1, onFailure), limit(3)), four(3)[:1], true},
		"limit 4, four workers restarted once":   {makeJob(replicas(worker, 4, onFailure), limit(4)), four(1), true},
		"limit 5, four workers restarted once":   {makeJob(replicas(worker, 4, onFailure), limit(5)), four(1), false},
		"restarts under Never do not count":      {makeJob(replicas(worker, 4), limit(1)), four(1), false},
		"restarts that a success needed count":   {makeJob(replicas(worker, 1, onFailure), limit(9)), four(2)[:1], false},
		"the kubelet restarts what Always names": {makeJob(replicas(worker, 1, kubeflowv1.RestartPolicyAlways), limit(2)), four(2)[:1], true},
	} {
		t.Run(name, func(t *testing.T) {
			p := decide(makeView(t, tc.job, tc.pods...), testOptions, testTime)
			if got := isTrue(&p.status, kubeflowv1.JobFailed); got != tc.want {
				t.Errorf("failed is %v", got)
			}
		})
	}
}

func TestContainerRestartsOutliveTheirPod(t *testing.T) {
	job := makeJob(replicas(worker, 1, kubeflowv1.RestartPolicyOnFailure), limit(5))
	step := func(pods ...*corev1.Pod) {
		t.Helper()
		job.Status = decide(makeView(t, job, pods...), testOptions, testTime).status
	}
	step(makePod("worker", 0, running, restarted(2)))
	step(makePod("worker", 0, running, restarted(2)))
	step() // somebody deleted the pod
	step()
	step(makePod("worker", 0, running, restarted(3), uid("2")))
	want := []kubeflowv1.ReplicaRestarts{{Faults: 2, ContainerRestarts: 3, PodUID: "2"}}
	if diff := cmp.Diff(want, job.Status.ReplicaStatuses[worker].Restarts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	step(makePod("worker", 0, running, restarted(4), uid("2")))
	if !isTrue(&job.Status, kubeflowv1.JobFailed) {
		t.Error("6 restarts of 5 allowed")
	}
}

// A restart of a container counts once, whatever becomes of its pod and whoever looks.
func TestContainerRestartsCountOnce(t *testing.T) {
	w := func(n int32, id types.UID, opts ...podOption) []*corev1.Pod {
		return []*corev1.Pod{makePod("worker", 0, running, append(opts, restarted(n), uid(id))...)}
	}
	fails := func(n int32, id types.UID, opts ...podOption) []*corev1.Pod {
		return []*corev1.Pod{makePod("worker", 0, failed, append(opts, restarted(n), uid(id))...)}
	}
	var none []*corev1.Pod
	for name, tc := range map[string]struct {
		before kubeflowv1.ReplicaRestarts
		looks  [][]*corev1.Pod
		want   int32 // faults and restarts of containers together
	}{
		"of one pod":                            {looks: [][]*corev1.Pod{w(1, "a"), w(2, "a"), w(2, "a")}, want: 2},
		"of one that was out of sight":          {looks: [][]*corev1.Pod{w(2, "a"), none, w(2, "a"), none, none, w(3, "a")}, want: 3},
		"seen by a cache that is behind":        {looks: [][]*corev1.Pod{w(2, "a"), w(1, "a"), w(0, "a"), w(2, "a")}, want: 2},
		"of two":                                {looks: [][]*corev1.Pod{w(2, "a"), none, w(1, "b"), w(2, "b")}, want: 4},
		"of two, without a look in between":     {looks: [][]*corev1.Pod{w(2, "a"), w(2, "b")}, want: 4},
		"the second has none":                   {looks: [][]*corev1.Pod{w(2, "a"), none, w(0, "b"), none, w(0, "b"), w(0, "c")}, want: 2},
		"and then one":                          {looks: [][]*corev1.Pod{w(2, "a"), none, w(0, "b"), w(1, "b")}, want: 3},
		"the pod fails":                         {looks: [][]*corev1.Pod{w(2, "a"), fails(2, "a"), none, w(0, "b", attempt("1")), fails(1, "b", attempt("1"))}, want: 5},
		"it fails after one that was not seen":  {looks: [][]*corev1.Pod{w(2, "a"), fails(3, "a"), fails(3, "a")}, want: 4},
		"another fails":                         {looks: [][]*corev1.Pod{w(2, "a"), none, fails(1, "b")}, want: 4},
		"a former attempt is seen again":        {looks: [][]*corev1.Pod{w(2, "a"), fails(2, "a"), w(1, "b", attempt("1")), w(2, "a"), w(1, "b", attempt("1"))}, want: 4},
		"of one that a former controller noted": {kubeflowv1.ReplicaRestarts{ContainerRestarts: 2}, [][]*corev1.Pod{w(2, "a"), none, w(3, "a"), w(1, "b")}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			job := makeJob(replicas(worker, 1, kubeflowv1.RestartPolicyOnFailure), limit(99))
			job.Status.ReplicaStatuses = map[kubeflowv1.ReplicaType]*kubeflowv1.ReplicaStatus{worker: {Restarts: []kubeflowv1.ReplicaRestarts{tc.before}}}
			for _, pods := range tc.looks {
				job.Status = decide(makeView(t, job, pods...), testOptions, testTime).status
			}
			r := job.Status.ReplicaStatuses[worker].Restarts[0]
			if got := r.Faults + r.ContainerRestarts; got != tc.want || (r.ContainerRestarts > 0) != (r.PodUID != "") {
				t.Errorf("%+v: counted %d, want %d", r, got, tc.want)
			}
		})
	}
}

// One whose owner reference somebody strips is out of the job's sight until it is taken back.
func TestAnOrphansContainerRestartsCountOnce(t *testing.T) {
	w := newWorld(t)
	w.put(resJobs, makeJob(replicas(worker, 2, kubeflowv1.RestartPolicyOnFailure), limit(4)))
	w.look()
	w.setPhases("", running)
	w.setPhase("j-worker-1", running, restarted(2))
	w.look()
	for range 2 {
		orphan := w.objects[resPods]["j-worker-1"].DeepCopyObject().(apiObject)
		orphan.SetOwnerReferences(nil)
		w.put(resPods, orphan)
		for range 3 {
			w.look()
		}
	}
	if pod := w.objects[resPods]["j-worker-1"]; !isOwn(pod, w.job()) {
		t.Error("it is not taken back")
	}
	r := w.job().Status.ReplicaStatuses[worker].Restarts
	if isFinished(&w.job().Status) || len(r) != 1 || r[0].Faults+r[0].ContainerRestarts != 2 {
		t.Errorf("conditions %v, restarts %+v", describe(w.job().Status), r)
	}
}

func TestRestartsAreDelayedMoreAndMore(t *testing.T) {
	for inARow, want := range map[int32]time.Duration{
		0: 0, 1: 0, 2: 10 * time.Second, 3: 20 * time.Second, 4: 40 * time.Second, 7: 5 * time.Minute, 1 << 30: 5 * time.Minute,
	} {
		if got := restartDelay(inARow); got != want {
			t.Errorf("after %d failures in a row the wait is %v, want %v", inARow, got, want)
		}
	}

	job := makeJob(replicas(worker, 2, kubeflowv1.RestartPolicyExitCode))
	fail := func(at time.Time, n string) {
		p := decide(makeView(t, job, makePod("worker", 0, running), makePod("worker", 1, failed, exited(137), attempt(n))), testOptions, at)
		job.Status = p.status
	}
	look := func(at time.Time) *plan {
		return decide(makeView(t, job, makePod("worker", 0, running)), testOptions, at)
	}
	fail(testTime, "0")
	if p := look(testTime); len(p.createPods) != 1 {
		t.Error("the first restart waits")
	}
	fail(testTime.Add(time.Second), "1")
	p := look(testTime.Add(2 * time.Second))
	if len(p.createPods) != 0 || p.after != 9*time.Second || p.status.State != kubeflowv1.JobRestarting {
		t.Errorf("pods %v, next look after %v, state %s", p.createPods, p.after, p.status.State)
	}
	if p = look(testTime.Add(11 * time.Second)); len(p.createPods) != 1 || p.status.State != kubeflowv1.JobRunning {
		t.Errorf("when it is due: pods %v, state %s", p.createPods, p.status.State)
	}
	fail(testTime.Add(time.Hour), "2")
	if p := look(testTime.Add(time.Hour)); len(p.createPods) != 1 {
		t.Error("after an hour of peace a failure is the first again")
	}
}

func TestB04B05WhatHasSucceededIsNeverRunAgain(t *testing.T) {
	type step struct {
		name string
		pods []*corev1.Pod
		edit func(*view)
		want []string
		end  []string
	}
	w := func(i int, phase corev1.PodPhase, opts ...podOption) *corev1.Pod {
		return makePod("worker", i, phase, opts...)
	}
	for name, tc := range map[string]struct {
		job   *kubeflowv1.TFJob
		steps []step
	}{
		"B04 a pod collector takes worker 1": {makeJob(replicas(worker, 2), allWorkers), []step{
			{"it succeeds", []*corev1.Pod{w(0, running), w(1, succeeded)}, nil, nil, []string{"Created", "Running"}},
			{"it is deleted: the gang shrinks", []*corev1.Pod{w(0, running)}, nil, []string{"update group j"}, []string{"Created", "Running"}},
			{"the rest succeeds", []*corev1.Pod{w(0, succeeded)}, nil, nil, []string{"Created", "Running False", "Succeeded"}},
		}},
		"B05 an autoscaler takes the evaluator's node": {makeJob(replicas(chief, 1), replicas(evaluator, 1, kubeflowv1.RestartPolicyOnFailure)), []step{
			{"it succeeds", []*corev1.Pod{makePod("chief", 0, running), makePod("evaluator", 0, succeeded)}, nil, nil, []string{"Created", "Running"}},
			{"its pod fails to be found", []*corev1.Pod{makePod("chief", 0, running)}, nil, []string{"update group j"}, []string{"Created", "Running"}},
		}},
		"B04 it is deleted before a reconcile sees it": {makeJob(replicas(worker, 2), allWorkers), []step{
			{"both run", []*corev1.Pod{w(0, running), w(1, running)}, nil, nil, []string{"Created", "Running"}},
			{"gone", []*corev1.Pod{w(0, running)}, func(v *view) { v.departed = map[string]departure{"j-worker-1": {pod: w(1, succeeded)}} }, []string{"update group j"}, []string{"Created", "Running"}},
			{"another controller", []*corev1.Pod{w(0, running)}, nil, []string{"update group j"}, []string{"Created", "Running"}},
		}},
		"a suspension comes between": {makeJob(replicas(worker, 2), allWorkers), []step{
			{"one succeeds", []*corev1.Pod{w(0, running), w(1, running)}, nil, nil, []string{"Created", "Running"}},
			{"suspended in the same moment", []*corev1.Pod{w(0, running), w(1, succeeded)}, func(v *view) { v.job.Spec.RunPolicy.Suspend = new(true); clear(v.services); clear(v.groups) },
				[]string{"delete pod j-worker-0", "delete pod j-worker-1"}, []string{"Created", "Running False", "Suspended"}},
			{"resumed", nil, bare, []string{"create group j", "create service j-worker-0", "create service j-worker-1", "create pod j-worker-0"},
				[]string{"Created", "Running False", "Suspended False"}},
		}},
		"scaled down and up again": {makeJob(replicas(worker, 2), allWorkers, dynamic), []step{
			{"worker 1 succeeds", []*corev1.Pod{w(0, running), w(1, succeeded)}, nil, nil, []string{"Created", "Running"}},
			{"down", []*corev1.Pod{w(0, running), w(1, succeeded)}, func(v *view) {
				v.roles[0].replicas = 1
				delete(v.services, "j-worker-1")
			}, []string{"delete pod j-worker-1", "update group j"}, []string{"Created", "Running"}},
			{"up", []*corev1.Pod{w(0, running)}, nil, []string{"update group j"}, []string{"Created", "Running"}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, s := range tc.steps {
				v := makeView(t, tc.job, s.pods...)
				v.groups["j"] = newGroupOf(makeView(t, makeJob(replicas(worker, 2))))
				if s.edit != nil {
					s.edit(v)
				}
				p := decide(v, testOptions, testTime)
				if diff := cmp.Diff(s.want, actions(v, p)); diff != "" {
					t.Errorf("%s: actions (-want +got):\n%s", s.name, diff)
				}
				tc.job = tc.job.DeepCopy()
				tc.job.Status = p.status
				if diff := cmp.Diff(s.end, describe(tc.job.Status)); diff != "" {
					t.Errorf("%s: conditions (-want +got):\n%s", s.name, diff)
				}
			}
		})
	}
}

func TestAGangIsNeverLargerThanWhatMayStillCome(t *testing.T) {
	job := makeJob(replicas(worker, 4, kubeflowv1.RestartPolicyOnFailure), allWorkers)
	job.Spec.RunPolicy.SchedulingPolicy = &kubeflowv1.SchedulingPolicy{MinAvailable: ptr.To[int32](4)}
	job.Status.ReplicaStatuses = map[kubeflowv1.ReplicaType]*kubeflowv1.ReplicaStatus{worker: {SucceededIndexes: "1-2"}}
	for name, tc := range map[string]struct {
		pods []*corev1.Pod
		want int32
	}{
		"succeeded pods that are there count": {makePods("worker", running, succeeded, succeeded, running), 4},
		"those that are gone do not":          {[]*corev1.Pod{makePod("worker", 0, running), makePod("worker", 2, succeeded)}, 3},
		"nobody is there":                     {nil, 2},
	} {
		if got := newGroupOf(makeView(t, job, tc.pods...)).Spec.MinMember; got != tc.want {
			t.Errorf("%s: minMember is %d, want %d", name, got, tc.want)
		}
	}
}

// B06: a pod that runs and is being deleted is no failure. When it is gone it is replaced, unless it never is, whether its end was seen before
// its departure or with it.
func TestB06PodsThatSomebodyDeletes(t *testing.T) {
	for name, tc := range map[string]struct {
		policy kubeflowv1.RestartPolicy
		phase  corev1.PodPhase // the last that is seen of it
		opts   []podOption
		own    bool
		opt    jobOption
		want   kubeflowv1.JobConditionType
		pods   int
	}{
		"OnFailure: replaced":                          {policy: "OnFailure", phase: running, want: "Running", pods: 70},
		"ExitCode: replaced, whatever it said":         {policy: "ExitCode", phase: failed, opts: []podOption{exited(1)}, want: "Running", pods: 70},
		"Never: lost":                                  {policy: "Never", phase: running, want: "Failed", pods: 69},
		"Never: lost, and its end was seen":            {policy: "Never", phase: failed, opts: []podOption{exited(143)}, want: "Failed", pods: 69},
		"Never: its kubelet had rejected it":           {policy: "Never", phase: failed, opts: []podOption{rejected("OutOfcpu", "")}, want: "Running", pods: 70},
		"Never: its node was about to shut down":       {policy: "Never", phase: failed, opts: []podOption{rejected("NodeShutdown", "")}, want: "Running", pods: 70},
		"Never: drained while its image was pulled":    {policy: "Never", phase: failed, opts: []podOption{neverBegun, disrupted}, want: "Running", pods: 70},
		"Never: the same, of an init container":        {policy: "Never", phase: failed, opts: []podOption{initializing, disrupted}, want: "Running", pods: 70},
		"ExitCode: drained while its image was pulled": {policy: "ExitCode", phase: failed, opts: []podOption{neverBegun, disrupted}, want: "Running", pods: 70},
		"Never: its node was gone before it took it":   {policy: "Never", phase: failed, opts: []podOption{disrupted}, want: "Running", pods: 70},
		"Never: it had not begun":                      {policy: "Never", phase: pending, want: "Running", pods: 70},
		"Never: the controller did it":                 {policy: "Never", phase: running, own: true, want: "Running", pods: 70},
		"Never: a dynamic job goes on and replaces it": {policy: "Never", phase: running, opt: dynamic, want: "Running", pods: 70},
		"Never: it had succeeded":                      {policy: "Never", phase: succeeded, opt: allWorkers, want: "Running", pods: 69},
	} {
		for _, isSeen := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, its end seen before: %v", name, isSeen), func(t *testing.T) {
				w := newWorld(t)
				job := makeJob(replicas(worker, 70, tc.policy))
				if tc.opt != nil {
					tc.opt(job)
				}
				w.put(resJobs, job)
				w.look()
				for _, pod := range w.podNames() {
					w.setPhase(pod, running)
				}
				w.look()
				before := w.job().Status.DeepCopy()
				w.setPhase("j-worker-54", running, terminating)
				w.look()
				if diff := cmp.Diff(before.Conditions, w.job().Status.Conditions); diff != "" {
					t.Errorf("while it goes (-before +after):\n%s", diff)
				}
				if tc.own {
					w.controller.ledger.enter(job.UID, deletion(kindPod, w.objects[resPods]["j-worker-54"].GetUID()), w.now())
				}
				w.setPhase("j-worker-54", tc.phase, append(tc.opts, terminating)...)
				if isSeen {
					w.look()
				}
				w.remove(resPods, "j-worker-54")
				w.look()
				if got := w.job().Status.State; got != tc.want || len(w.podNames()) != tc.pods {
					t.Errorf("state is %s and there are %d pods, want %s and %d", got, len(w.podNames()), tc.want, tc.pods)
				}
			})
		}
	}
}

func TestB30TroublesAreToldOnce(t *testing.T) {
	w := newWorld(t)
	w.put(resJobs, makeJob(replicas(worker, 3)))
	waiting := func(reason string) podOption {
		return func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "tensorflow",
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "because"}}}}
		}
	}
	for _, reason := range []string{"", "ContainerCreating", "ImagePullBackOff", "ImagePullBackOff", "CrashLoopBackOff"} {
		w.deliverAll()
		if err := w.reconcile(); err != nil {
			t.Fatal(err)
		}
		w.setPhase("j-worker-1", pending, waiting(reason))
		w.setPhase("j-worker-2", pending, waiting(reason))
	}
	w.deliverAll()
	if err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	got := slices.DeleteFunc(slices.Clone(w.events.lines), func(line string) bool { return strings.HasPrefix(line, "SuccessfulCreate") })
	want := []string{"ImagePullBackOff: Pod j-worker-1, container tensorflow: because", "CrashLoopBackOff: Pod j-worker-1, container tensorflow: because"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// Annotations and statuses may be edited by anybody. A failure still counts, and is still delayed, whatever number a pod bears; and a failure
// that another clock saw in the future is nothing to wait for.
func TestNoNumberMakesRestartsFree(t *testing.T) {
	for _, n := range []string{"", "-1", "999999", "1000000", "1000001", "2147483647", "9223372036854775807", "x"} {
		job := makeJob(replicas(worker, 2, kubeflowv1.RestartPolicyExitCode))
		now := testTime
		bears := n
		for i := range 4 {
			pod := makePod("worker", 1, failed, exited(137), attempt(bears))
			job.Status = decide(makeView(t, job, makePod("worker", 0, running), pod), testOptions, now).status
			r := job.Status.ReplicaStatuses[worker].Restarts[0]
			if r.InARow != int32(i+1) || r.Faults < int32(i+1) {
				t.Errorf("attempt %q: failure %d counts as %+v", n, i+1, r)
			}
			bears = strconv.Itoa(int(r.Attempt))
			now = now.Add(time.Minute)
		}
	}
	job := makeJob(replicas(worker, 2, kubeflowv1.RestartPolicyExitCode))
	job.Status.ReplicaStatuses = map[kubeflowv1.ReplicaType]*kubeflowv1.ReplicaStatus{worker: {Restarts: []kubeflowv1.ReplicaRestarts{
		{Index: 1, Attempt: 9, InARow: 9, LastFailureTime: &metav1.Time{Time: testTime.Add(1000 * time.Hour)}},
	}}}
	if p := decide(makeView(t, job, makePod("worker", 0, running)), testOptions, testTime); len(p.createPods) != 1 {
		t.Errorf("it waits for a failure of the future: next look after %v", p.after)
	}
}
