// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// going is how a pod looks whose deletion gave it 30 seconds.
func going(since time.Time) podOption {
	return func(pod *corev1.Pod) {
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: since.Add(30 * time.Second)}, new(int64(30))
	}
}

// endedAt is a pod whose containers returned the code at that time.
func endedAt(code int32, at time.Time) podOption {
	return func(pod *corev1.Pod) {
		exited(code)(pod)
		pod.Status.ContainerStatuses[0].State.Terminated.FinishedAt = metav1.Time{Time: at}
	}
}

// drain is somebody's deletion of a pod that runs.
func (w *world) drain(name string) { w.setPhase(name, running, going(w.clock)) }

// vanish is the kubelet's last act for pods that were told to go.
func (w *world) vanish(names ...string) {
	for _, name := range names {
		w.takeAway(name)
	}
}

func suspending(is bool) jobOption {
	return func(job *kubeflowv1.TFJob) { job.Spec.RunPolicy.Suspend = &is }
}

func workers(n int32) jobOption {
	return func(job *kubeflowv1.TFJob) { job.Spec.TFReplicaSpecs[worker].Replicas = &n }
}

// Under Never, a pod that somebody deletes fails the job, and none that the controller deletes does, whichever controller that was and
// whoever sees it go.
func TestOnlyWhatSomebodyElseTookFromARunningJobIsLost(t *testing.T) {
	const runs, lost = 3, -1 // so many pods are there in the end
	for name, tc := range map[string]struct {
		story func(w *world)
		want  int
	}{
		"a drain": {func(w *world) {
			w.drain("j-worker-0")
			w.look()
			w.vanish("j-worker-0")
		}, lost},
		"a drain that is seen when it is over": {func(w *world) {
			w.drain("j-worker-0")
			w.vanish("j-worker-0")
		}, lost},
		"a drain that is seen by a controller that has just begun, and knew the pod before": {func(w *world) {
			w.start()
			w.look()
			w.drain("j-worker-0")
			w.look()
			w.vanish("j-worker-0")
		}, lost},
		"a drain, after the job was suspended and resumed": {func(w *world) {
			w.suspendAndResume()
			w.drain("j-worker-0")
			w.look()
			w.vanish("j-worker-0")
		}, lost},
		"a drain in the second of the resume": {func(w *world) {
			w.suspendAndResume()
			w.clock = w.job().Status.StartTime.Time
			w.drain("j-worker-0")
			w.vanish("j-worker-0")
		}, lost},

		"suspended and resumed": {func(w *world) { w.suspendAndResume() }, runs},
		"suspended by a leader that dies when the pods are gone": {func(w *world) {
			w.stand()
			w.suspendIt()
			w.vanish(w.podNames()...)
			w.look()
			w.takeOver()
			w.resumeIt()
		}, runs},
		"suspended by a leader that dies while the pods go": {func(w *world) {
			w.stand()
			w.suspendIt()
			w.takeOver()
			w.look()
			w.goAndResume()
		}, runs},
		"the same, resumed before they are gone": {func(w *world) {
			w.stand()
			w.suspendIt()
			w.takeOver()
			w.edit(suspending(false))
			w.look()
			w.vanish(w.podNames()...)
			w.look()
		}, runs},
		"a drain, and a suspension in its grace period": {func(w *world) {
			w.drain("j-worker-0")
			w.look()
			w.suspendIt()
			w.goAndResume()
		}, runs},
		"a drain that is over when the suspension is seen": {func(w *world) {
			w.drain("j-worker-0")
			w.vanish("j-worker-0")
			w.suspendIt()
			w.goAndResume()
		}, runs},
		"a drain of a suspended job's pod in the second of the resume": {func(w *world) {
			w.suspendIt()
			w.vanish(w.podNames()[1:]...)
			w.edit(suspending(false))
			w.look()
			w.clock = w.clock.Truncate(time.Second)
			w.vanish("j-worker-0")
			w.look()
		}, runs},

		"scaled down, and up by the next leader": {func(w *world) {
			w.stand()
			w.edit(workers(2))
			w.look()
			w.vanish("j-worker-2")
			w.look()
			w.takeOver()
			w.edit(workers(3))
		}, runs},
		"scaled down, and up by the next leader while the pod goes": {func(w *world) {
			w.stand()
			w.edit(workers(2))
			w.look()
			w.takeOver()
			w.edit(workers(3))
			w.look()
			w.vanish("j-worker-2")
		}, runs},
		"the same, and the pod ends badly": {func(w *world) {
			w.stand()
			w.edit(workers(2))
			w.look()
			w.takeOver()
			w.edit(workers(3))
			w.setPhase("j-worker-2", failed, endedAt(143, w.clock))
			w.look()
			w.vanish("j-worker-2")
		}, runs},
		"drained, scaled down, and up": {func(w *world) {
			w.drain("j-worker-2")
			w.edit(workers(2))
			w.look()
			w.vanish("j-worker-2")
			w.look()
			w.edit(workers(3))
		}, runs},
		"drained and gone, scaled down, and up": {func(w *world) {
			w.drain("j-worker-2")
			w.vanish("j-worker-2")
			w.edit(workers(2))
			w.look()
			w.edit(workers(3))
		}, runs},

		// Who told these to go nobody can say any more.
		"a drain that a leader saw that then died": {func(w *world) {
			w.stand()
			w.drain("j-worker-0")
			w.deliverAll()
			w.takeOver()
			w.look()
			w.vanish("j-worker-0")
		}, runs},
		"a drain that only one saw that did not lead": {func(w *world) {
			w.stand()
			w.drain("j-worker-0")
			w.vanish("j-worker-0")
			w.deliverAll()
			w.takeOver()
		}, runs},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.put(resJobs, makeJob(replicas(worker, runs)))
			w.look()
			w.setPhases("", running)
			w.look()
			tc.story(w)
			for range 3 {
				w.look()
			}
			if tc.want == lost {
				if !isTrue(&w.job().Status, kubeflowv1.JobFailed) {
					t.Errorf("it has not failed; conditions %v, pods %v", describe(w.job().Status), w.podNames())
				}
			} else if isFinished(&w.job().Status) || len(w.podNames()) != tc.want {
				t.Errorf("conditions %v, pods %v", describe(w.job().Status), w.podNames())
			}
		})
	}
}

func (w *world) suspendIt() {
	w.edit(suspending(true))
	w.look()
	w.look()
}

func (w *world) resumeIt() {
	w.edit(suspending(false))
	w.look()
	w.look()
	w.setPhases("", running)
	w.look()
}

func (w *world) suspendAndResume() {
	w.suspendIt()
	w.goAndResume()
}

func (w *world) goAndResume() {
	w.vanish(w.podNames()...)
	w.look()
	w.resumeIt()
}

// exitCase is a program that ends when, or before, its pod is told to go.
type exitCase struct {
	told  func(w *world)
	ended time.Duration // after it was told; 0 if nobody knows
	phase corev1.PodPhase
	opts  []podOption
	job   jobOption
	want  string // the indexes that have succeeded
}

// run tells whether it counts, when the pod is seen while it is going or when it is gone, and by the controller that told it or another.
func (tc exitCase) run(t *testing.T, isDrain bool, seen string, fresh bool) {
	w := newWorld(t)
	job := makeJob(replicas(worker, 2, "ExitCode"), allWorkers)
	if tc.job != nil {
		tc.job(job)
	}
	w.put(resJobs, job)
	w.look()
	w.setPhases("", running)
	w.look()
	w.stand()
	told := w.clock
	if tc.want != "" && tc.ended >= 0 && fresh {
		t.Skip("who told it to go nobody can say any more")
	}
	if isDrain {
		w.drain("j-worker-1")
	}
	tc.told(w)
	if fresh {
		w.takeOver()
		w.look()
	}
	code := int32(0)
	if tc.phase == failed {
		code = 143
	}
	var at time.Time
	if tc.ended != 0 {
		at = told.Add(tc.ended)
	}
	w.setPhase("j-worker-1", tc.phase, append([]podOption{endedAt(code, at)}, tc.opts...)...)
	if seen == "going" {
		w.look()
	}
	w.vanish("j-worker-1")
	w.look()
	if !isDrain && w.job().Spec.RunPolicy.Suspend != nil {
		w.vanish("j-worker-0")
		w.look()
	}
	w.edit(workers(2))
	w.edit(suspending(false))
	w.look()
	w.look()
	if got := w.job().Status.ReplicaStatuses[worker].SucceededIndexes; got != tc.want {
		t.Errorf("succeeded are %q, want %q", got, tc.want)
	}
	if isFinished(&w.job().Status) || (w.objects[resPods]["j-worker-1"] == nil) != (tc.want != "") {
		t.Errorf("conditions %v, pods %v", describe(w.job().Status), w.podNames())
	}
}

// A program that ends with 0 because the controller told it to go has not done its work; one that had ended before has, and so has one that
// somebody else told.
func TestAnExitWithZeroOnTheControllersWordIsNoSuccess(t *testing.T) {
	const before, after, unknown = -time.Minute, time.Minute, 0
	suspension := func(w *world) { w.suspendIt() }
	surplus := func(w *world) {
		w.edit(workers(1))
		w.look()
		w.look()
	}
	aDrain := func(w *world) { w.look() }
	sidecar := func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: "sidecar",
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.Time{Time: testTime.Add(time.Hour)}}}})
	}
	runningSidecar := func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: "sidecar"})
	}
	byMain := annotated("tutti.dev/completion", "main-container")
	for name, tc := range map[string]exitCase{
		"suspended, and then it ended":                      {told: suspension, ended: after, phase: succeeded},
		"suspended when it had ended":                       {told: suspension, ended: before, phase: succeeded, want: "1"},
		"suspended, and nobody knows when it ended":         {told: suspension, ended: unknown, phase: succeeded},
		"surplus, and then it ended":                        {told: surplus, ended: after, phase: succeeded},
		"surplus when it had ended":                         {told: surplus, ended: before, phase: succeeded, want: "1"},
		"surplus, and nobody knows when it ended":           {told: surplus, ended: unknown, phase: succeeded},
		"drained, and then it ended":                        {told: aDrain, ended: after, phase: succeeded, want: "1"},
		"drained when it had ended":                         {told: aDrain, ended: before, phase: succeeded, want: "1"},
		"drained, and nobody knows when it ended":           {told: aDrain, ended: unknown, phase: succeeded, want: "1"},
		"suspended when the trainer had, and not a sidecar": {told: suspension, ended: before, phase: succeeded, opts: []podOption{sidecar}},
		"the same, where the trainer's end is the replica's": {told: suspension, ended: before, phase: succeeded, opts: []podOption{sidecar},
			job: byMain, want: "1"},
		"the trainer ends then": {told: suspension, ended: after, phase: running, opts: []podOption{runningSidecar}, job: byMain},
		"the trainer had ended": {told: suspension, ended: before, phase: running, opts: []podOption{runningSidecar}, job: byMain, want: "1"},
		"it ended badly":        {told: suspension, ended: after, phase: failed},
	} {
		for _, seen := range []string{"going", "gone"} {
			for _, fresh := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, seen %s, another controller %t", name, seen, fresh), func(t *testing.T) { tc.run(t, name[0] == 'd', seen, fresh) })
			}
		}
	}
}

// Under Always nothing ends by itself: a pod that has succeeded was told to go, by whomever, and is replaced at no cost.
func TestUnderAlwaysNothingSucceeds(t *testing.T) {
	for name, tc := range map[string]struct {
		story func(w *world)
		job   jobOption
	}{
		"drained, and its end is seen": {story: func(w *world) {
			w.setPhase("j-ps-0", succeeded, going(w.clock), endedAt(0, w.clock))
			w.look()
			w.vanish("j-ps-0")
		}},
		"drained and gone": {story: func(w *world) {
			w.setPhase("j-ps-0", succeeded, going(w.clock), endedAt(0, w.clock))
			w.vanish("j-ps-0")
		}},
		"drained, by the trainer's end": {story: func(w *world) {
			w.setPhase("j-ps-0", running, going(w.clock), endedAt(0, w.clock))
			w.vanish("j-ps-0")
		}, job: annotated("tutti.dev/completion", "main-container")},
		"suspended": {story: func(w *world) {
			w.edit(suspending(true))
			w.look()
			w.setPhases("", succeeded, endedAt(0, w.clock))
			w.look()
			w.vanish(w.podNames()...)
			w.edit(suspending(false))
		}},
		"it has succeeded, and nobody deletes it": {story: func(w *world) {
			w.setPhase("j-ps-0", succeeded, endedAt(0, w.clock))
			w.look()
			w.vanish("j-ps-0")
		}},
		"a former controller has called it a success": {story: func(w *world) {
			w.edit(func(job *kubeflowv1.TFJob) { job.Status.ReplicaStatuses[ps].SucceededIndexes = "0" })
			w.vanish("j-ps-0")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			job := makeJob(replicas(ps, 1, "Always"), replicas(worker, 1, "Always"), limit(0))
			if tc.job != nil {
				tc.job(job)
			}
			w.put(resJobs, job)
			w.look()
			w.setPhases("", running)
			w.look()
			old := w.objects[resPods]["j-ps-0"].GetUID()
			tc.story(w)
			for range 3 {
				w.look()
			}
			rs := w.job().Status.ReplicaStatuses[ps]
			if pod := w.objects[resPods]["j-ps-0"]; pod == nil || pod.GetUID() == old || isFinished(&w.job().Status) || rs.SucceededIndexes != "" {
				t.Errorf("conditions %v, pods %v, status %+v", describe(w.job().Status), w.podNames(), *rs)
			}
			for _, r := range rs.Restarts {
				if r.Faults > 0 {
					t.Errorf("it counts as a fault: %+v", r)
				}
			}
		})
	}
}
