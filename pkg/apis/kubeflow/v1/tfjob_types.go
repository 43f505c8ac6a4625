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
//
// Names become parts of services' names, which are DNS labels. A job that was stored before these
// rules may still be updated, so that it can be suspended, reported on and deleted.
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || self.metadata.name.matches('^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$')",optionalOldSelf=true,message="must be a DNS-1035 label: at most 63 lower-case letters, digits and '-', with a letter first and no '-' last",fieldPath=".metadata.name"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.tfReplicaSpecs) || self.spec.tfReplicaSpecs.all(t, size(self.metadata.name) + size(t) + 2 + size(string(self.spec.tfReplicaSpecs[t].?replicas.orValue(1) - 1)) <= 63 || oldSelf.?spec.?tfReplicaSpecs[?t].optMap(old, old.?replicas.orValue(1) >= self.spec.tfReplicaSpecs[t].?replicas.orValue(1)).orValue(false))",optionalOldSelf=true,message="too long: <name>-<replica type>-<highest index> names a service, and must be at most 63 characters long",fieldPath=".metadata.name"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.replicaSpecs) || self.spec.replicaSpecs.all(r, size(self.metadata.name) + size(r.tfReplicaType) + 2 + size(string(r.?replicas.orValue(1) - 1)) <= 63)",message="too long: <name>-<replica type>-<highest index> names a service, and must be at most 63 characters long",fieldPath=".metadata.name"
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
//
// +kubebuilder:validation:XValidation:rule="has(self.tfReplicaSpecs) || has(self.replicaSpecs)",message="a job needs tfReplicaSpecs (or the legacy replicaSpecs)",reason=FieldValueRequired,fieldPath=".tfReplicaSpecs"
// +kubebuilder:validation:XValidation:rule="!(has(self.tfReplicaSpecs) && has(self.replicaSpecs))",message="only one of tfReplicaSpecs and replicaSpecs may be set",reason=FieldValueForbidden,fieldPath=".replicaSpecs"
// +kubebuilder:validation:XValidation:rule="has(self.replicaSpecs) || !(has(self.tfImage) || has(self.terminationPolicy) || has(self.schedulerName) || has(self.RuntimeId) || has(self.cleanupPodPolicy))",message="tfImage, terminationPolicy, schedulerName, RuntimeId and cleanupPodPolicy belong to the legacy replicaSpecs; beside tfReplicaSpecs use the pod templates and runPolicy",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="!has(self.replicaSpecs) || !has(self.terminationPolicy) || !has(self.terminationPolicy.chief) || self.replicaSpecs.exists(r, r.tfReplicaType.lowerAscii() == self.terminationPolicy.chief.replicaName.lowerAscii())",message="the replica that terminationPolicy.chief names is not in replicaSpecs",fieldPath=".terminationPolicy.chief"
// +kubebuilder:validation:XValidation:rule="(has(self.runPolicy) && has(self.runPolicy.managedBy) ? self.runPolicy.managedBy : \"\") == (has(oldSelf.runPolicy) && has(oldSelf.runPolicy.managedBy) ? oldSelf.runPolicy.managedBy : \"\")",message="cannot be changed",fieldPath=".runPolicy.managedBy"
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
	// +kubebuilder:validation:XValidation:rule="self.all(t, t.lowerAscii() in ['ps', 'worker', 'chief', 'master', 'evaluator'])",message="unknown replica type: the types are PS, Worker, Chief, Master and Evaluator, in any case"
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, a.lowerAscii() == b.lowerAscii()))",message="a replica type may be given once, whatever its case",reason=FieldValueDuplicate
	// +kubebuilder:validation:XValidation:rule="!(self.exists(t, t.lowerAscii() == 'chief') && self.exists(t, t.lowerAscii() == 'master'))",message="Chief and Master are the same role: only one of them may be given",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="self.all(t, !(t.lowerAscii() in ['chief', 'master']) || self[t].?replicas.orValue(1) <= 1)",message="there is at most one replica of Chief or Master"
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
//
// +kubebuilder:validation:XValidation:rule="has(self.template) && has(self.template.spec) && has(self.template.spec.containers) && self.template.spec.containers.exists(c, c.name == 'tensorflow')",message="one container must be named tensorflow",reason=FieldValueRequired,fieldPath=".template.spec.containers"
// +kubebuilder:validation:XValidation:rule="!has(self.template) || !has(self.template.spec) || !has(self.template.spec.containers) || self.template.spec.containers.all(c, has(c.image) && size(c.image) > 0)",message="every container needs an image",reason=FieldValueRequired,fieldPath=".template.spec.containers"
type ReplicaSpec struct {
	// Replicas is how many. Default: 1. A job has at most 10000, of all types together.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
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
// +kubebuilder:validation:Enum="";Always;OnFailure;Never;ExitCode
type RestartPolicy string

const (
	RestartPolicyAlways    RestartPolicy = "Always"
	RestartPolicyOnFailure RestartPolicy = "OnFailure"
	RestartPolicyNever     RestartPolicy = "Never"
	// RestartPolicyExitCode restarts after exit codes of 128 and above; lower ones are permanent.
	RestartPolicyExitCode RestartPolicy = "ExitCode"
)
