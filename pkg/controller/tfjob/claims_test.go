// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedulingv1alpha1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

func labelled(over map[string]string) podOption {
	return func(pod *corev1.Pod) {
		pod.Labels = merged(map[string]string{
			"training.kubeflow.org/operator-name": "tfjob-controller",
			"training.kubeflow.org/job-name":      "j",
			"training.kubeflow.org/replica-type":  "worker",
			"training.kubeflow.org/replica-index": "0",
		}, over)
	}
}

func controlledBy(name, kind string) podOption {
	return func(pod *corev1.Pod) {
		gvk := jobKind
		gvk.Kind = kind
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(&metav1.ObjectMeta{Name: name, UID: "job-0"}, gvk)}
	}
}

// What is found under the name j-worker-0 when job j is new.
func TestWhoseIsIt(t *testing.T) {
	const takenEvent = "FailedCreatePod: Error creating pod j-worker-0: an object of this name exists that does not belong to the job"
	for name, tc := range map[string]struct {
		pod *corev1.Pod
		// hidden: it bears none of the controller's labels, so the caches do not show it.
		hidden      bool
		wantAdopted bool
		wantEvents  int
	}{
		"an orphan with the job's labels is adopted":     {makePod("worker", 0, running, labelled(nil)), false, true, 0},
		"B14 another operator's is not":                  {makePod("worker", 0, running, labelled(map[string]string{"training.kubeflow.org/operator-name": "pytorchjob-controller"})), true, false, 1},
		"an orphan of another job is not":                {makePod("worker", 0, running, labelled(map[string]string{"training.kubeflow.org/job-name": "k"})), false, false, 1},
		"L04 an orphan with an index of -1 is not":       {makePod("worker", 0, running, labelled(map[string]string{"training.kubeflow.org/replica-index": "-1"})), false, false, 1},
		"an orphan that is going is not":                 {makePod("worker", 0, running, labelled(nil), terminating), false, false, 0},
		"B01 B10 B11 a former job's of the same name":    {makePod("worker", 0, succeeded, exited(0), labelled(nil), controlledBy("j", "TFJob")), false, false, 0},
		"somebody's who controls it, whatever it bears":  {makePod("worker", 0, running, labelled(nil), controlledBy("x", "Other")), false, false, 1},
		"a pod that has nothing to do with any of this ": {makePod("worker", 0, running), true, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.put(resPods, tc.pod)
			w.put(resJobs, makeJob(replicas(worker, 2, kubeflowv1.RestartPolicyOnFailure)))
			if tc.hidden {
				w.seen[resPods]++
			}
			for range 4 { // no matter how often
				w.deliverAll()
				if err := w.reconcile(); err != nil && !errors.Is(err, errTaken) {
					t.Fatal(err)
				}
			}
			w.deliverAll()
			events := slices.DeleteFunc(slices.Clone(w.events.lines), func(e string) bool { return e != takenEvent })
			if len(events) != tc.wantEvents {
				t.Errorf("%d times: %s", len(events), takenEvent)
			}
			live := w.objects[resPods]["j-worker-0"].(*corev1.Pod)
			if got := belongsTo(live, w.job()); got != tc.wantAdopted {
				t.Errorf("adopted is %v", got)
			}
			asked := slices.Contains(w.writes, "create pods j-worker-0")
			if asked || w.objects[resServices]["j-worker-1"] == nil {
				t.Errorf("writes: %v", w.writes)
			}
			if rs := w.job().Status.ReplicaStatuses[worker]; rs.Succeeded > 0 {
				t.Error("B10 it counts as this job's success")
			}
			// Once it is gone its place is filled at once.
			w.remove(resPods, "j-worker-0")
			w.deliverAll()
			if err := w.reconcile(); err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(w.podNames(), "j-worker-0") {
				t.Errorf("the place stays empty; writes %v", w.writes)
			}
		})
	}
}

func TestAJobTakesBackWhatWasOrphaned(t *testing.T) {
	w := newWorld(t)
	job := gangJob(kubeflowv1.CleanPodPolicyAll)
	w.put(resJobs, job)
	w.deliverAll()
	if err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	before := len(w.writes)
	for _, resource := range resources[1:] {
		for name, o := range w.objects[resource] {
			orphan := o.DeepCopyObject().(apiObject)
			orphan.SetOwnerReferences(nil)
			w.put(resource, orphan)
			_ = name
		}
	}
	w.deliverAll()
	if err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	for _, action := range w.writes[before:] {
		if !strings.HasPrefix(action, "patch ") {
			t.Errorf("instead of an adoption: %s", action)
		}
	}
	if adopted := len(w.writes) - before; adopted != 9 {
		t.Errorf("adopted %d of 9", adopted)
	}
	w.settle()
	if diff := cmp.Diff(wantEnd[kubeflowv1.CleanPodPolicyAll], w.end()); diff != "" {
		t.Errorf("end (-want +got):\n%s", diff)
	}
}

func TestWhatNoLongerMatchesIsReleased(t *testing.T) {
	for _, resource := range []string{resPods, resServices} {
		for label, isSeen := range map[string]bool{
			"training.kubeflow.org/job-name":      true,
			"training.kubeflow.org/operator-name": false, // it leaves the caches with this label
		} {
			t.Run(resource+" without "+label, func(t *testing.T) {
				w := newWorld(t)
				w.put(resJobs, gangJob(kubeflowv1.CleanPodPolicyAll))
				w.deliverAll()
				if err := w.reconcile(); err != nil {
					t.Fatal(err)
				}
				w.deliverAll()
				const name = "j-ps-0"
				taken := w.objects[resource][name].DeepCopyObject().(apiObject)
				labels := merged(taken.GetLabels(), nil)
				delete(labels, label)
				taken.SetLabels(labels)
				w.put(resource, taken)
				if !isSeen {
					w.seen[resource]++
					w.apply(resource, change{w.journal[resource][w.seen[resource]-1].before, nil})
				}
				for range 3 {
					w.deliver(resJobs, 9)
					w.deliver(resource, 0)
					if err := w.reconcile(); err != nil && !errors.Is(err, errTaken) {
						t.Fatal(err)
					}
					if isSeen {
						w.deliverAll()
					}
				}
				live := w.objects[resource][name]
				if live == nil || belongsTo(live, w.job()) {
					t.Errorf("it is still the job's, or gone: %v", live)
				}
				told := slices.DeleteFunc(slices.Clone(w.events.lines), func(e string) bool { return !strings.Contains(e, errTaken.Error()) })
				if len(told) != 1 {
					t.Errorf("events: %v", told)
				}
			})
		}
	}
}

// training-operator gives a PodGroup no labels; the caches do not show it.
func TestAPodGroupOfTrainingOperatorIsTakenOver(t *testing.T) {
	w := newWorld(t)
	w.put(resJobs, gangJob(kubeflowv1.CleanPodPolicyAll))
	theirs := newGroupOf(makeView(t, w.job()))
	theirs.Labels, theirs.UID, theirs.Spec.MinMember = map[string]string{"mine": "too"}, "group-1", 1
	w.put(resGroups, theirs)
	w.seen[resGroups]++
	w.deliverAll()
	if err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	live := w.objects[resGroups]["j"].(*schedulingv1alpha1.PodGroup)
	if live.UID != "group-1" || !isOwn(live, w.job()) || live.Labels["mine"] != "too" || live.Spec.MinMember != 4 {
		t.Errorf("got %+v", live)
	}
	if len(w.podNames()) != 4 {
		t.Errorf("pods %v", w.podNames())
	}
	w.settle()
	if diff := cmp.Diff(wantEnd[kubeflowv1.CleanPodPolicyAll], w.end()); diff != "" {
		t.Errorf("end (-want +got):\n%s", diff)
	}
}

// takenNames are of objects that jobs need, and that others have.
var takenNames = map[string]struct {
	hasRun bool
	hidden bool // it bears none of the controller's labels, so the caches do not show it
}{
	"of a new job":                   {false, false},
	"of a new job, out of sight":     {false, true},
	"of a job that runs":             {true, false},
	"of a job that runs, and hidden": {true, true},
}

// A job does not start at an address that is another's. One that has run goes on: somebody took the service out of it.
func TestAServiceNameThatIsTaken(t *testing.T) {
	for name, tc := range takenNames {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.put(resJobs, makeJob(replicas(worker, 2, kubeflowv1.RestartPolicyOnFailure)))
			if tc.hasRun {
				w.look()
				w.setPhases("", corev1.PodRunning)
				w.look()
				w.remove(resServices, "j-worker-0")
				w.remove(resPods, "j-worker-1")
				w.deliverAll()
			}
			theirs := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "j-worker-0", Namespace: "n", UID: "theirs",
				Labels: map[string]string{"training.kubeflow.org/operator-name": "tfjob-controller", "training.kubeflow.org/job-name": "j-worker-0"}}}
			w.put(resServices, theirs)
			if tc.hidden {
				w.seen[resServices]++
			}
			for range 4 {
				w.deliverAll()
				if err := w.reconcile(); err != nil && !errors.Is(err, errTaken) {
					t.Fatal(err)
				}
			}
			if got, want := len(w.podNames()), map[bool]int{false: 0, true: 2}[tc.hasRun]; got != want {
				t.Errorf("pods %v, want %d", w.podNames(), want)
			}
			told := slices.DeleteFunc(slices.Clone(w.events.lines), func(e string) bool { return !strings.Contains(e, errTaken.Error()) })
			if len(told) != 1 || !strings.HasPrefix(told[0], "FailedCreateService") {
				t.Errorf("events: %v", told)
			}
			w.remove(resServices, "j-worker-0")
			w.look()
			w.look()
			if got := len(w.podNames()); got != 2 {
				t.Errorf("when the name is free: pods %v", w.podNames())
			}
		})
	}
}

// What somebody makes by hand under a name of a job that is over is not the job's, and is not cleaned up with it.
func TestAFinishedJobTakesNothing(t *testing.T) {
	w := newWorld(t)
	w.put(resJobs, gangJob(kubeflowv1.CleanPodPolicyAll))
	w.settle()
	w.put(resPods, makePod("worker", 0, running, labelled(nil)))
	writes := len(w.writes)
	for range 3 {
		w.look()
	}
	if w.objects[resPods]["j-worker-0"] == nil || len(w.writes) > writes {
		t.Errorf("pods %v, writes %v", w.podNames(), w.writes[writes:])
	}
}
