// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// JobStatus is what the TFJob controller last saw of a job.
type JobStatus struct {
	// State is the type of the last condition that is True, for people; programs read the
	// conditions.
	// +optional
	State JobConditionType `json:"state,omitempty"`

	// Conditions in order of their last change, newest last.
	// +optional
	Conditions []JobCondition `json:"conditions,omitempty"`

	// ReplicaStatuses counts pods by replica type (canonical case).
	// +optional
	ReplicaStatuses map[ReplicaType]*ReplicaStatus `json:"replicaStatuses,omitempty"`

	// StartTime is when the job was first reconciled, or last resumed; deadlines count from it.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// CompletionTime is when the job succeeded or failed.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// LastReconcileTime exists for upstream's clients.
	// +optional
	LastReconcileTime *metav1.Time `json:"lastReconcileTime,omitempty"`
}

// ReplicaStatus counts the pods of one replica type.
type ReplicaStatus struct {
	// Active pods are pending or running, and not being deleted.
	// +optional
	Active int32 `json:"active,omitempty"`
	// +optional
	Succeeded int32 `json:"succeeded,omitempty"`
	// +optional
	Failed int32 `json:"failed,omitempty"`

	// SucceededIndexes are the replicas that have succeeded, as in "0,2-4". They are never run again,
	// whatever happens to their pods.
	// +optional
	SucceededIndexes string `json:"succeededIndexes,omitempty"`
	// Restarts tells of the replicas whose pods have failed and been replaced, by index.
	// +listType=map
	// +listMapKey=index
	// +optional
	Restarts []ReplicaRestarts `json:"restarts,omitempty"`

	// LabelSelector and Selector are never written for TFJobs; objects of upstream's may have them.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
	// +optional
	Selector string `json:"selector,omitempty"`
}

// ReplicaRestarts counts the restarts of one replica. It outlives the replica's pods.
type ReplicaRestarts struct {
	Index int32 `json:"index"`
	// Attempt is how many pods of this replica have failed and been replaced. The pod of a later attempt
	// bears it as an annotation.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`
	// Faults counts towards the backoff limit: failures of former pods, and restarts of their containers. Pods
	// that were evicted, preempted, rejected by the kubelet or lost with their node are no faults.
	// +optional
	Faults int32 `json:"faults,omitempty"`
	// ContainerRestarts are those of the latest pod that had any. They count towards the backoff limit too.
	// +optional
	ContainerRestarts int32 `json:"containerRestarts,omitempty"`
	// PodUID is that pod's. The restarts of another pod count in addition.
	// +optional
	PodUID types.UID `json:"podUID,omitempty"`
	// InARow is how many failures followed each other closely; the delay before the next pod grows with it.
	// +optional
	InARow int32 `json:"inARow,omitempty"`
	// LastFailureTime is when the last failure was seen.
	// +optional
	LastFailureTime *metav1.Time `json:"lastFailureTime,omitempty"`
}

// JobCondition is one aspect of a job's state.
type JobCondition struct {
	Type   JobConditionType       `json:"type"`
	Status corev1.ConditionStatus `json:"status"`
	// Reason is TFJob followed by what happened, for programs.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message is for people.
	// +optional
	Message string `json:"message,omitempty"`
	// LastUpdateTime is when anything in the condition changed.
	// +optional
	LastUpdateTime metav1.Time `json:"lastUpdateTime,omitzero"`
	// LastTransitionTime is when the status changed.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitzero"`
}

// JobConditionType names a condition.
type JobConditionType string

const (
	// JobCreated: the job was seen; its pods may not exist yet.
	JobCreated JobConditionType = "Created"
	// JobRunning: what decides the job's success is running.
	JobRunning JobConditionType = "Running"
	// JobRestarting: a pod that failed is being replaced.
	JobRestarting JobConditionType = "Restarting"
	// JobSuspended: the job has no pods because it was told so.
	JobSuspended JobConditionType = "Suspended"
	// JobSucceeded and JobFailed are final.
	JobSucceeded JobConditionType = "Succeeded"
	JobFailed    JobConditionType = "Failed"
)

// Reasons of the conditions.
const (
	TFJobCreatedReason          = "TFJobCreated"
	TFJobRunningReason          = "TFJobRunning"
	TFJobRestartingReason       = "TFJobRestarting"
	TFJobSuspendedReason        = "TFJobSuspended"
	TFJobResumedReason          = "TFJobResumed"
	TFJobSucceededReason        = "TFJobSucceeded"
	TFJobFailedReason           = "TFJobFailed"
	TFJobFailedValidationReason = "TFJobFailedValidation"
)
