// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// What somebody else has written to the PodGroup meanwhile is no error: the controller looks again, and then it is in step.
func TestAPodGroupThatHasChangedMeanwhileIsAConflict(t *testing.T) {
	for name, options := range ofEitherKind {
		t.Run(name, func(t *testing.T) {
			w := newWorldOf(t, options)
			w.put(resJobs, makeJob(replicas(worker, 2)))
			w.look()
			w.look()
			w.edit(scheduling(kubeflowv1.SchedulingPolicy{MinAvailable: ptr.To[int32](1), ScheduleTimeoutSeconds: ptr.To[int32](60)}))
			w.deliverAll()
			others := w.objects[resGroups]["j"].DeepCopyObject().(apiObject)
			others.SetAnnotations(merged(others.GetAnnotations(), map[string]string{"other": "x"}))
			w.put(resGroups, others) // not delivered
			if err := w.reconcile(); !apierrors.IsConflict(err) {
				t.Errorf("got %v, want a conflict", err)
			}
			w.look()
			is, want := w.objects[resGroups]["j"].(podGroup), w.wantedGroup()
			if patch := options.PodGroups.patch(is, want); patch != nil || is.GetAnnotations()["other"] != "x" {
				t.Errorf("still to be done: %s; annotations %v", patch, is.GetAnnotations())
			}
		})
	}
}

// wantedGroup is the PodGroup that the job, as it is now, should have.
func (w *world) wantedGroup() podGroup {
	v := makeView(w.t, w.job())
	return w.options.PodGroups.write(gangOf(v, count(v, w.clock)))
}

// goOnBesideTaken lets the job do all that it can while a name is taken; pods that were told to go do so.
func (w *world) goOnBesideTaken() {
	for range 6 {
		w.deliverAll()
		if err := w.reconcile(); err != nil && !errors.Is(err, errTaken) {
			w.t.Fatal(err)
		}
		for _, pod := range w.podNames() {
			if w.objects[resPods][pod].GetDeletionTimestamp() != nil {
				w.remove(resPods, pod)
			}
		}
	}
}

// A job does not start in a gang that is another's. One that has run goes on, and is given its own as soon as the name is free.
func TestAPodGroupNameThatIsTaken(t *testing.T) {
	for name, options := range ofEitherKind {
		for tc, is := range takenNames {
			t.Run(name+", "+tc, func(t *testing.T) {
				w := newWorldOf(t, options)
				w.put(resJobs, makeJob(replicas(worker, 4, kubeflowv1.RestartPolicyOnFailure)))
				theirs := w.wantedGroup().DeepCopyObject().(apiObject)
				theirs.SetUID("theirs")
				theirs.SetOwnerReferences(nil)
				theirs.SetLabels(map[string]string{"training.kubeflow.org/operator-name": "tfjob-controller", "training.kubeflow.org/job-name": "k"})
				if is.hasRun {
					w.look()
					w.setPhases("", corev1.PodRunning)
					w.look()
					w.remove(resGroups, "j")
					w.remove(resPods, "j-worker-1")
					w.setPhase("j-worker-2", corev1.PodFailed, exited(137))
					w.setPhase("j-worker-3", corev1.PodFailed, reason("Evicted"))
					w.deliverAll()
				}
				w.put(resGroups, theirs)
				if is.hidden {
					w.seen[resGroups]++
				}
				w.goOnBesideTaken()
				if got, want := len(w.podNames()), map[bool]int{false: 0, true: 4}[is.hasRun]; got != want {
					t.Errorf("pods %v, want %d", w.podNames(), want)
				}
				told := slices.DeleteFunc(slices.Clone(w.events.lines), func(e string) bool { return !strings.HasPrefix(e, "FailedCreatePodGroup") })
				if len(told) != 1 {
					t.Errorf("events %v", w.events.lines)
				}
				if group := w.objects[resGroups]["j"]; group.GetUID() != "theirs" || belongsTo(group, w.job()) {
					t.Errorf("the other's PodGroup was touched: %v", group)
				}
				delete(w.objects[resGroups], "j")
				w.journal[resGroups] = append(w.journal[resGroups], change{theirs, nil})
				w.look()
				if group := w.objects[resGroups]["j"]; len(w.podNames()) != 4 || group == nil || !isOwn(group, w.job()) {
					t.Errorf("when the name is free: pods %v, PodGroup %v", w.podNames(), group)
				}
			})
		}
	}
}
