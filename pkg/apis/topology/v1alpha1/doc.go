// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 answers what is inside a node: the types of topology.tutti.dev/v1alpha1.
// One NodeTopology stands for one node, whose agent writes it and whose scheduler reads it. It
// holds what was measured, and knows nothing of placement.
//
// +kubebuilder:object:generate=true
// +groupName=topology.tutti.dev
package v1alpha1
