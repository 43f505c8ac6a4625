// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 answers what a legacy TFJob looks like: kubeflow.org/v1alpha1, served from the
// same stored objects as v1 without conversion. So its fields are v1's, and only the version
// differs: manifests say replicaSpecs here, but either version accepts either shape.
//
// +kubebuilder:object:generate=true
// +groupName=kubeflow.org
package v1alpha1
