// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// RunPolicy says how a job as a whole lives and ends.
type RunPolicy struct {
	// CleanPodPolicy says which pods are deleted when the job has finished. Default: None.
	// +optional
	CleanPodPolicy *CleanPodPolicy `json:"cleanPodPolicy,omitempty"`

	// TTLSecondsAfterFinished is how long after its end the job is deleted. Default: never.
	// +kubebuilder:validation:Minimum=0
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// ActiveDeadlineSeconds is how long after status.startTime the job fails if it has not
	// finished. Default: never.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`

	// BackoffLimit is how many restarts the job survives. Default: any number.
	// +kubebuilder:validation:Minimum=0
	// +optional
	BackoffLimit *int32 `json:"backoffLimit,omitempty"`

	// SchedulingPolicy says how the job's gang is scheduled.
	// +optional
	SchedulingPolicy *SchedulingPolicy `json:"schedulingPolicy,omitempty"`

	// Suspend deletes the job's pods and keeps it from starting new ones until it is false again.
	// +kubebuilder:default:=false
	// +optional
	Suspend *bool `json:"suspend,omitempty"`

	// ManagedBy names the controller that reconciles the job; a job that names another than
	// kubeflow.org/training-operator is left alone. It cannot be changed. Default: this controller.
	// +kubebuilder:validation:Enum="";kubeflow.org/training-operator;kueue.x-k8s.io/multikueue
	// +kubebuilder:validation:MaxLength=64
	// +optional
	ManagedBy *string `json:"managedBy,omitempty"`
}

// CleanPodPolicy says which pods of a finished job are deleted. The empty string is All, as training-operator takes it.
//
// +kubebuilder:validation:Enum="";All;Running;None
type CleanPodPolicy string

const (
	CleanPodPolicyAll     CleanPodPolicy = "All"
	CleanPodPolicyRunning CleanPodPolicy = "Running"
	CleanPodPolicyNone    CleanPodPolicy = "None"
)

// SchedulingPolicy says how a job's gang is scheduled.
type SchedulingPolicy struct {
	// MinAvailable is how many pods must be placed for any to start. Default: all of them. Of fewer,
	// the PodGroup's annotation tutti.dev/role-minimums says how many each role has at least.
	// +kubebuilder:validation:Minimum=1
	// +optional
	MinAvailable *int32 `json:"minAvailable,omitempty"`

	// Queue is the queue of schedulers that have queues. It cannot be changed once set.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.runPolicy.schedulingPolicy.queue cannot be changed"
	// +optional
	Queue string `json:"queue,omitempty"`

	// MinResources is what those pods need together. Default: the sum of their requests.
	// +optional
	MinResources *map[corev1.ResourceName]resource.Quantity `json:"minResources,omitempty"`

	// PriorityClass is the priority class of pods whose template names none. All pods of a job have
	// one class.
	// +optional
	PriorityClass string `json:"priorityClass,omitempty"`

	// ScheduleTimeoutSeconds is how long the gang may wait for its place before its verdict says that
	// it has waited too long, and other gangs of its priority go first. It ends no job:
	// activeDeadlineSeconds does. Default: never.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ScheduleTimeoutSeconds *int32 `json:"scheduleTimeoutSeconds,omitempty"`
}
