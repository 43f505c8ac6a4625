// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TFJob is one distributed TensorFlow job.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=tfjobs,singular=tfjob
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type TFJob struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the user wants.
	// +required
	Spec TFJobSpec `json:"spec,omitempty"`

	// Status is what the TFJob controller last saw; it alone writes it.
	// +optional
	Status JobStatus `json:"status,omitempty"`
}

// TFJobList is a list of TFJobs.
//
// +kubebuilder:object:root=true
type TFJobList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []TFJob `json:"items"`
}

// TFJobSpec describes a job in one of two shapes: tfReplicaSpecs, or the legacy list replicaSpecs.
type TFJobSpec struct {
	// RunPolicy says how the job as a whole lives and ends. Default: nothing limits it.
	// +optional
	RunPolicy RunPolicy `json:"runPolicy"`

	// SuccessPolicy says when the job has succeeded. Default: when the chief (or, without one,
	// worker 0) has.
	// +optional
	SuccessPolicy *SuccessPolicy `json:"successPolicy,omitempty"`

	// TFReplicaSpecs maps a replica type (PS, Worker, Chief, Master or Evaluator, in any case) to
	// its replicas. Exactly one of tfReplicaSpecs and replicaSpecs is set.
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=5
	// +optional
	TFReplicaSpecs map[ReplicaType]*ReplicaSpec `json:"tfReplicaSpecs,omitempty"`

	// EnableDynamicWorker lets workers come and go while the job runs: each learns its own address
	// and those of the parameter servers only. Default: false.
	// +optional
	EnableDynamicWorker bool `json:"enableDynamicWorker,omitempty"`

	LegacyTFJobSpec `json:",inline"`
}

// SuccessPolicy says which replicas must succeed.
//
// +kubebuilder:validation:Enum="";AllWorkers
type SuccessPolicy string

const (
	SuccessPolicyDefault    SuccessPolicy = ""
	SuccessPolicyAllWorkers SuccessPolicy = "AllWorkers"
)

// ReplicaType is the role of a replica, in the canonical case. Users may write any case.
type ReplicaType string

const (
	// TFJobReplicaTypePS holds parameters.
	TFJobReplicaTypePS ReplicaType = "PS"
	// TFJobReplicaTypeWorker trains.
	TFJobReplicaTypeWorker ReplicaType = "Worker"
	// TFJobReplicaTypeChief trains and decides the job's success.
	TFJobReplicaTypeChief ReplicaType = "Chief"
	// TFJobReplicaTypeMaster is an older word for Chief.
	TFJobReplicaTypeMaster ReplicaType = "Master"
	// TFJobReplicaTypeEval evaluates checkpoints beside the training.
	TFJobReplicaTypeEval ReplicaType = "Evaluator"
)

// ReplicaSpec describes the replicas of one type.
type ReplicaSpec struct {
	// Replicas is how many. Default: 1.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// Template describes the pods. The restart policy in it is overridden by RestartPolicy below.
	// +required
	Template corev1.PodTemplateSpec `json:"template,omitempty"`

	// RestartPolicy says when a pod that ended is started again. Default: Never.
	// +optional
	RestartPolicy RestartPolicy `json:"restartPolicy,omitempty"`
}

// RestartPolicy is a pod's restart policy, or ExitCode.
//
// +kubebuilder:validation:Enum=Always;OnFailure;Never;ExitCode
type RestartPolicy string

const (
	RestartPolicyAlways    RestartPolicy = "Always"
	RestartPolicyOnFailure RestartPolicy = "OnFailure"
	RestartPolicyNever     RestartPolicy = "Never"
	// RestartPolicyExitCode restarts after exit codes of 128 and above; lower ones are permanent.
	RestartPolicyExitCode RestartPolicy = "ExitCode"
)
