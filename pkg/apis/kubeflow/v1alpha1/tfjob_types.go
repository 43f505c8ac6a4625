// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// TFJob is one distributed TensorFlow job.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=tfjobs,singular=tfjob
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type TFJob struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the user wants.
	// +required
	Spec kubeflowv1.TFJobSpec `json:"spec,omitempty"`

	// Status is what the TFJob controller last saw, as in v1.
	// +optional
	Status kubeflowv1.JobStatus `json:"status,omitempty"`
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
