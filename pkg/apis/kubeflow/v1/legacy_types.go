// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package v1

import corev1 "k8s.io/api/core/v1"

// LegacyTFJobSpec holds what only the list shape of v1alpha1 says. The TFJob controller turns it
// into the other shape in memory and never writes it back.
type LegacyTFJobSpec struct {
	// ReplicaSpecs lists the replicas, one item per type.
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, a.tfReplicaType.lowerAscii() == b.tfReplicaType.lowerAscii()))",message="a replica type may be given once, whatever its case (an item without tfReplicaType is the MASTER)",reason=FieldValueDuplicate
	// +kubebuilder:validation:XValidation:rule="self.all(r, has(r.template)) || self.exists(r, has(r.template) && r.tfReplicaType.lowerAscii() != 'ps')",message="an item without a template uses that of the MASTER or else of the WORKER, but neither has one",reason=FieldValueRequired
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=5
	// +listType=atomic
	// +optional
	ReplicaSpecs []LegacyReplicaSpec `json:"replicaSpecs,omitempty"`

	// TFImage is the image of parameter servers that have neither a template nor a role to borrow
	// one from.
	// +optional
	TFImage string `json:"tfImage,omitempty"`

	// TerminationPolicy says which replica decides the job's success. Default: the MASTER, or
	// without one worker 0.
	// +optional
	TerminationPolicy *TerminationPolicy `json:"terminationPolicy,omitempty"`

	// SchedulerName is the scheduler of pods whose template names none.
	// +optional
	SchedulerName string `json:"schedulerName,omitempty"`

	// RuntimeID was part of pod names. It is kept and has no effect.
	// +optional
	RuntimeID string `json:"RuntimeId,omitempty"`

	// CleanupPodPolicy is runPolicy.cleanPodPolicy, which wins if both are set.
	// +optional
	CleanupPodPolicy CleanPodPolicy `json:"cleanupPodPolicy,omitempty"`
}

// LegacyReplicaSpec describes the replicas of one type in the list shape.
//
// +kubebuilder:validation:XValidation:rule="self.tfReplicaType.lowerAscii() != 'master' || self.?replicas.orValue(1) == 1",message="there is exactly one MASTER",fieldPath=".replicas"
// +kubebuilder:validation:XValidation:rule="!has(self.template) || has(self.template.spec) && has(self.template.spec.containers) && self.template.spec.containers.exists(c, c.name == 'tensorflow')",message="one container must be named tensorflow",reason=FieldValueRequired,fieldPath=".template.spec.containers"
// +kubebuilder:validation:XValidation:rule="!has(self.template) || !has(self.template.spec) || !has(self.template.spec.containers) || self.template.spec.containers.all(c, has(c.image) && size(c.image) > 0)",message="every container needs an image",reason=FieldValueRequired,fieldPath=".template.spec.containers"
type LegacyReplicaSpec struct {
	// Replicas is how many. Default: 1. A job has at most 10000, of all types together.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// TFReplicaType is MASTER, WORKER or PS, in any case.
	// +kubebuilder:default:=MASTER
	// +kubebuilder:validation:Pattern=`^(?i:MASTER|WORKER|PS)$`
	// +kubebuilder:validation:MaxLength=6
	// +optional
	TFReplicaType ReplicaType `json:"tfReplicaType,omitempty"`

	// Template describes the pods; its restart policy is the replicas'. Default: the template of
	// the MASTER, or else of the WORKERs.
	// +optional
	Template *corev1.PodTemplateSpec `json:"template,omitempty"`

	// TFPort is the port by which the others reach these replicas. Default: 2222.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	TFPort *int32 `json:"tfPort,omitempty"`
}

// TerminationPolicy says which replica decides the job's success.
type TerminationPolicy struct {
	// +optional
	Chief *TerminationChief `json:"chief,omitempty"`
}

// TerminationChief names a replica.
type TerminationChief struct {
	// ReplicaName is MASTER or WORKER, in any case.
	// +kubebuilder:default:=MASTER
	// +kubebuilder:validation:Pattern=`^(?i:MASTER|WORKER)$`
	// +kubebuilder:validation:MaxLength=6
	// +optional
	ReplicaName ReplicaType `json:"replicaName,omitempty"`
	// ReplicaIndex is 0, the only index that v1alpha1 allowed.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=0
	// +optional
	ReplicaIndex int32 `json:"replicaIndex,omitempty"`
}
