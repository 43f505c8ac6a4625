// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	tuttiapi "github.com/tutti-project/tutti/pkg/apis/tutti"
)

// bound is true when the gang has just so many pods and all have nodes.
func (s *scene) bound(gang string, size int) func(context.Context) error {
	return func(ctx context.Context) error { return s.plane.Bound(ctx, s.namespace, gang, size) }
}

// refused is true when all pods of the gang exist, none has a node, and the
// PodGroup's condition says no with all of these words.
func (s *scene) refused(gang string, size int, words ...string) func(context.Context) error {
	return all(
		func(ctx context.Context) error { return s.plane.Unbound(ctx, s.namespace, gang, size) },
		s.condition(gang, metav1.ConditionFalse, tuttiapi.UnschedulableReason, words...),
	)
}

// condition is true when the PodGroup's verdict has this status and reason and
// its message has these words.
func (s *scene) condition(gang string, status metav1.ConditionStatus, reason string, words ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		verdict, err := s.plane.Verdict(ctx, s.namespace, gang)
		if err != nil {
			return err
		}
		if verdict.Status != status || verdict.Reason != reason {
			return fmt.Errorf("verdict on %s is %s %s (%s), want %s %s", gang, verdict.Status, verdict.Reason, verdict.Message, status, reason)
		}
		return contains(verdict.Message, words)
	}
}

// event is true when the PodGroup has an event with this reason and words.
func (s *scene) event(gang, reason string, words ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		list, err := s.plane.Client.CoreV1().Events(s.namespace).List(ctx, metav1.ListOptions{
			FieldSelector: "involvedObject.kind=PodGroup,involvedObject.name=" + gang + ",reason=" + reason,
		})
		if err != nil {
			return err
		}
		err = fmt.Errorf("PodGroup %s has no event %s", gang, reason)
		for _, event := range list.Items {
			if err = contains(event.Message, words); err == nil {
				return nil
			}
		}
		return err
	}
}

// racks is true when the gang's pods are spread over just so many racks.
func (s *scene) racks(gang string, want int) func(context.Context) error {
	return func(ctx context.Context) error {
		racks, err := s.plane.Racks(ctx, s.namespace, gang)
		if err != nil {
			return err
		}
		if len(racks) != want {
			return fmt.Errorf("gang %s is in racks %v, want %d", gang, racks, want)
		}
		return nil
	}
}

func contains(message string, words []string) error {
	for _, word := range words {
		if !strings.Contains(message, word) {
			return fmt.Errorf("%q lacks %q", message, word)
		}
	}
	return nil
}

// all is true when every check is.
func all(checks ...func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, check := range checks {
			if err := check(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

// failed is true when the TFJob has failed for this reason and its message has
// these words.
func (s *scene) failed(name, reason string, words ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		job, err := s.tutti.KubeflowV1().TFJobs(s.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range job.Status.Conditions {
			if c.Type == kubeflowv1.JobFailed && c.Reason == reason {
				return contains(c.Message, words)
			}
		}
		return fmt.Errorf("job %s has conditions %+v, want Failed for %s", name, job.Status.Conditions, reason)
	}
}
