// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clienttesting "k8s.io/client-go/testing"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// refusing lets the API server call every new object of a resource invalid while it says so.
func (w *world) refusing(resource, name string, isInvalid func() bool) {
	kube := w.clients.Kube.(interface {
		PrependReactor(verb, resource string, reaction clienttesting.ReactionFunc)
	})
	kube.PrependReactor("create", resource, func(a clienttesting.Action) (bool, runtime.Object, error) {
		created := a.(clienttesting.CreateAction).GetObject().(apiObject).GetName()
		if !isInvalid() || created != name {
			return false, nil, nil
		}
		why := field.ErrorList{field.Invalid(field.NewPath("spec", "containers"), "x", "no such volume")}
		return true, nil, apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, created, why)
	})
}

func always() bool { return true }

// B28: what the API server will never take ends the job, which says why, and leaves nothing behind that waits for it.
func TestB28WhatTheAPIServerRefusesEndsTheJob(t *testing.T) {
	for resource, name := range map[string]string{resPods: "j-worker-1", resServices: "j-worker-1"} {
		t.Run(resource, func(t *testing.T) {
			w := newWorld(t)
			w.put(resJobs, makeJob(replicas(ps, 1), replicas(worker, 2)))
			w.refusing(resource, name, always)
			for range 5 {
				w.deliverAll()
				_ = w.reconcile() // what is refused is an error too
			}
			failure := findCondition(&w.job().Status, kubeflowv1.JobFailed)
			if failure == nil || failure.Reason != kubeflowv1.TFJobFailedValidationReason || !strings.Contains(failure.Message, "no such volume") {
				t.Fatalf("conditions %v: %+v", describe(w.job().Status), failure)
			}
			if len(w.objects[resPods])+len(w.objects[resServices])+len(w.objects[resGroups]) > 0 {
				t.Errorf("left over: %v", w.end())
			}
		})
	}
}

// A job that runs goes on in spite of an edit that cannot be carried out, and carries out the next.
func TestAnInvalidEditOfARunningJobCanBeTakenBack(t *testing.T) {
	w := newWorld(t)
	w.put(resJobs, makeJob(replicas(worker, 1)))
	look := func() error {
		w.deliverAll()
		err := w.reconcile()
		w.deliverAll()
		return err
	}
	if err := look(); err != nil {
		t.Fatal(err)
	}
	w.setPhase("j-worker-0", corev1.PodRunning)
	if err := look(); err != nil {
		t.Fatal(err)
	}
	wrong := true
	w.refusing(resPods, "j-worker-1", func() bool { return wrong })
	w.edit(func(job *kubeflowv1.TFJob) {
		job.Generation++
		job.Spec.TFReplicaSpecs[worker].Replicas = new(int32(2))
	})
	for range 3 {
		if err := look(); !apierrors.IsInvalid(err) {
			t.Errorf("got %v", err)
		}
	}
	if w.job().Status.State != kubeflowv1.JobRunning {
		t.Errorf("conditions %v", describe(w.job().Status))
	}
	wrong = false
	w.edit(func(job *kubeflowv1.TFJob) { job.Generation++ })
	if err := look(); err != nil || len(w.podNames()) != 2 {
		t.Errorf("pods %v, %v", w.podNames(), err)
	}
}

// What was refused of a former specification says nothing about the present one.
func TestARefusalHoldsForOneGeneration(t *testing.T) {
	l := newLedger()
	l.refuse("a", 1, "no")
	if got := l.refusal("a", 1); got != "no" {
		t.Errorf("got %q", got)
	}
	if got := l.refusal("a", 2) + l.refusal("b", 1); got != "" {
		t.Errorf("got %q", got)
	}
	l.close("a")
	if got := l.refusal("a", 1); got != "" {
		t.Errorf("got %q of a job that is gone", got)
	}
}
