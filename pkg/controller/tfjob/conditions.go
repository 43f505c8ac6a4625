// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// Conditions are a list in order of their last change, which clients rely on: the newest change stands last.

// setCondition adds a condition to a status, by these rules:
//
//   - Succeeded and Failed are final: once one is True, nothing changes any more.
//   - A condition that says the same as before (type, status, reason) changes nothing, times and message included.
//   - A change replaces the entry and moves to the end. lastTransitionTime survives a change of the reason alone.
//   - Running and Restarting take each other's place.
//   - A final condition turns Running to False where it stands.
func setCondition(status *kubeflowv1.JobStatus, c kubeflowv1.JobCondition, now time.Time) {
	if isFinished(status) {
		return
	}
	c.LastUpdateTime = wireTime(now)
	c.LastTransitionTime = c.LastUpdateTime
	if old := findCondition(status, c.Type); old != nil && old.Status == c.Status {
		if old.Reason == c.Reason {
			return
		}
		c.LastTransitionTime = old.LastTransitionTime
	}
	status.Conditions = slices.DeleteFunc(slices.Clone(status.Conditions), func(old kubeflowv1.JobCondition) bool {
		return old.Type == c.Type || old.Type == excludedBy(c.Type)
	})
	if c.Type == kubeflowv1.JobSucceeded || c.Type == kubeflowv1.JobFailed {
		if running := findCondition(status, kubeflowv1.JobRunning); running != nil {
			running.Status = corev1.ConditionFalse
		}
	}
	status.Conditions = append(status.Conditions, c)
	status.State = stateFrom(status.Conditions)
}

func excludedBy(t kubeflowv1.JobConditionType) kubeflowv1.JobConditionType {
	switch t {
	case kubeflowv1.JobRunning:
		return kubeflowv1.JobRestarting
	case kubeflowv1.JobRestarting:
		return kubeflowv1.JobRunning
	}
	return ""
}

// stateFrom is the last condition that holds.
func stateFrom(conditions []kubeflowv1.JobCondition) kubeflowv1.JobConditionType {
	for _, c := range slices.Backward(conditions) {
		if c.Status == corev1.ConditionTrue {
			return c.Type
		}
	}
	return ""
}

func findCondition(status *kubeflowv1.JobStatus, t kubeflowv1.JobConditionType) *kubeflowv1.JobCondition {
	for i := range status.Conditions {
		if status.Conditions[i].Type == t {
			return &status.Conditions[i]
		}
	}
	return nil
}

func isTrue(status *kubeflowv1.JobStatus, t kubeflowv1.JobConditionType) bool {
	c := findCondition(status, t)
	return c != nil && c.Status == corev1.ConditionTrue
}

func isFinished(status *kubeflowv1.JobStatus) bool {
	return isTrue(status, kubeflowv1.JobSucceeded) || isTrue(status, kubeflowv1.JobFailed)
}

// wireTime is now as it reads back from the API server, so that what was written compares equal to what comes back.
func wireTime(now time.Time) metav1.Time {
	return metav1.NewTime(now.Truncate(time.Second))
}

func condition(t kubeflowv1.JobConditionType, status corev1.ConditionStatus, reason, message string) kubeflowv1.JobCondition {
	return kubeflowv1.JobCondition{Type: t, Status: status, Reason: reason, Message: message}
}
