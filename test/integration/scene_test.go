// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podgroup "sigs.k8s.io/scheduler-plugins/pkg/generated/clientset/versioned"

	tutti "github.com/tutti-project/tutti/pkg/generated/clientset/versioned"
	"github.com/tutti-project/tutti/test/controlplane"
)

const (
	// patience is how long a check may take to become true.
	patience = 30 * time.Second
	// atRest is how long a gang may be bound in part before that counts as a
	// state and not as a step: a second and more is a hundred times what the
	// bindings of one gang take.
	atRest = 2 * time.Second
)

// scene is what one test works with: a namespace of its own, clients, and a
// recorder that has seen every pod of the namespace from its first moment.
type scene struct {
	*recorder

	t         *testing.T
	plane     *controlplane.ControlPlane
	namespace string
	tutti     tutti.Interface
	podGroups podgroup.Interface
}

// step is one line of a script: do happens once, check is asked until it says
// nil. Either may be missing.
type step struct {
	name  string
	do    func(context.Context) error
	check func(context.Context) error
}

func newScene(t *testing.T, plane *controlplane.ControlPlane) *scene {
	t.Helper()
	ctx := t.Context()
	namespace, err := plane.Client.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	must(t, err)
	s := &scene{t: t, plane: plane, namespace: namespace.Name}
	s.tutti, err = tutti.NewForConfig(plane.Config)
	must(t, err)
	s.podGroups, err = podgroup.NewForConfig(plane.Config)
	must(t, err)
	s.recorder, err = record(ctx, plane.Client, s.namespace)
	must(t, err)
	// Not t.Context(): that has ended when clean-ups run.
	t.Cleanup(func() { s.close(context.WithoutCancel(ctx)) })
	s.eventually(ctx, "the namespace has its service account", func(ctx context.Context) error {
		_, err := plane.Client.CoreV1().ServiceAccounts(s.namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	return s
}

// run plays a script and stops the test at the first step that fails.
func (s *scene) run(steps []step) {
	s.t.Helper()
	ctx := s.t.Context()
	for _, step := range steps {
		if step.do != nil {
			if err := step.do(ctx); err != nil {
				s.t.Fatalf("%s: %v", step.name, err)
			}
		}
		if step.check != nil {
			s.eventually(ctx, step.name, step.check)
		}
	}
}

func (s *scene) eventually(ctx context.Context, name string, check func(context.Context) error) {
	s.t.Helper()
	if err := s.plane.Eventually(ctx, patience, check); err != nil {
		s.t.Fatalf("%s: %v", name, err)
	}
}

// close empties the namespace, so that the next test finds the whole cluster
// free, and says what the programs had to say if the test has failed.
func (s *scene) close(ctx context.Context) {
	if s.t.Failed() {
		s.explain(ctx)
	}
	// The namespace controller waits five seconds before it starts; the pods
	// must go at once.
	gone := s.plane.Client.CoreV1().Namespaces().Delete(ctx, s.namespace, metav1.DeleteOptions{})
	if apierrors.IsNotFound(gone) {
		return // the test has deleted it
	}
	err := errors.Join(gone,
		s.tutti.KubeflowV1().TFJobs(s.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
		s.plane.Client.CoreV1().Pods(s.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
	)
	if err != nil {
		s.t.Error(err)
		return
	}
	err = s.plane.Eventually(ctx, patience, func(ctx context.Context) error {
		pods, err := s.plane.Client.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(pods.Items) > 0 {
			return fmt.Errorf("%d pods are left in namespace %s", len(pods.Items), s.namespace)
		}
		return nil
	})
	if err != nil {
		s.t.Error(err)
	}
}

// explain logs what was said of the gangs and the end of our programs' logs.
func (s *scene) explain(ctx context.Context) {
	events, err := s.plane.Client.CoreV1().Events(s.namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=PodGroup"})
	if err != nil {
		s.t.Log(err)
		return
	}
	for _, e := range events.Items {
		s.t.Logf("event: %s: %s: %s", e.InvolvedObject.Name, e.Reason, e.Message)
	}
	for _, p := range s.plane.Processes() {
		if p.Name == "tutti-scheduler" || p.Name == "tutti-controller" {
			s.t.Logf("the end of %s:\n%s", p.Log(), p.Tail())
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
