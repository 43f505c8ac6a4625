// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package v1 answers what a TFJob is: the types of kubeflow.org/v1, with the JSON of
// training-operator 1.9, so that manifests and clients written for it work unchanged.
//
// Beyond that it has status.state, and the fields of the legacy list shape (legacy_types.go):
// both versions of the CRD share one stored form, which is pruned with this version's schema, so
// what v1alpha1 can say must have its place here.
//
// Validation is markers on these types, enforced by the API server. The package knows no defaults
// and no behaviour.
//
// +kubebuilder:object:generate=true
// +groupName=kubeflow.org
package v1
