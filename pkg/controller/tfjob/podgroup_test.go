// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
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
