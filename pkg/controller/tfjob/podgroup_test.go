// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"errors"
	"slices"
	"strings"
	"testing"

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

// A job does not start in a gang that is another's.
func TestAPodGroupNameThatIsTaken(t *testing.T) {
	for name, options := range ofEitherKind {
		for _, hidden := range []bool{false, true} {
			w := newWorldOf(t, options)
			w.put(resJobs, makeJob(replicas(worker, 2)))
			theirs := w.wantedGroup().DeepCopyObject().(apiObject)
			theirs.SetUID("theirs")
			theirs.SetOwnerReferences(nil)
			theirs.SetLabels(map[string]string{"training.kubeflow.org/operator-name": "tfjob-controller", "training.kubeflow.org/job-name": "k"})
			w.put(resGroups, theirs)
			if hidden {
				w.seen[resGroups]++
			}
			for range 3 {
				w.deliverAll()
				if err := w.reconcile(); err != nil && !errors.Is(err, errTaken) {
					t.Fatal(err)
				}
			}
			told := slices.DeleteFunc(slices.Clone(w.events.lines), func(e string) bool { return !strings.HasPrefix(e, "FailedCreatePodGroup") })
			if len(w.podNames()) > 0 || len(told) != 1 {
				t.Errorf("%s, hidden %v: pods %v, events %v", name, hidden, w.podNames(), w.events.lines)
			}
			delete(w.objects[resGroups], "j")
			w.journal[resGroups] = append(w.journal[resGroups], change{theirs, nil})
			w.look()
			if len(w.podNames()) != 2 {
				t.Errorf("%s, hidden %v: when the name is free: pods %v", name, hidden, w.podNames())
			}
		}
	}
}
