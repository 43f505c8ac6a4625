// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package clusterview turns API objects and the scheduler's view of them into
// the planner's plain values: nodes into a topology tree and free vectors,
// the pods of a gang into roles with ranks, annotations into constraints. It
// parses each quantity, label and key once, here, and decides nothing.
package clusterview

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// podsResource counts pods against a node's limit; every pod asks for one.
const podsResource = string(v1.ResourcePods)

// valueOf is a quantity in the unit in which the scheduler counts the
// resource: thousandths for cpu, else whole units, rounded up.
func valueOf(name string, q resource.Quantity) int64 {
	if name == string(v1.ResourceCPU) {
		return q.MilliValue()
	}
	return q.Value()
}
