// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// quantity is what resource.ParseQuantity reads, and reads in no time: controller-gen's own pattern
// lets exponents pass that are no integers, and ones on which it runs for minutes.
const quantity = `^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]{1,2}))?$`

const maxQuantity = 64

// keepReadable narrows the schema to what the Go types can decode. One object that they cannot, and
// no informer of the kind syncs any more: whoever may create a job could stop the controller.
func keepReadable(s *schema) {
	if s.XIntOrString {
		if s.Pattern != "" {
			s.Pattern = quantity
			s.MaxLength = new(int64(maxQuantity))
		} else {
			s.Minimum = new(float64(math.MinInt32))
			s.Maximum = new(float64(math.MaxInt32))
		}
	}
	// API servers before 1.37 do not look at formats.
	switch s.Format {
	case "int32":
		bound(s, math.MinInt32, math.MaxInt32)
	case "int64":
		// The API server refuses every object where the shortest decimal of a bound is beyond 64 bits.
		bound(s, math.Nextafter(math.MinInt64, 0), math.Nextafter(math.MaxInt64, 0))
	}
	for name, child := range s.Properties {
		keepReadable(&child)
		s.Properties[name] = child
	}
	if s.Items != nil && s.Items.Schema != nil {
		keepReadable(s.Items.Schema)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		keepReadable(s.AdditionalProperties.Schema)
	}
}

// bound keeps narrower bounds that are there.
func bound(s *schema, least, most float64) {
	if s.Minimum == nil {
		s.Minimum = new(least)
	}
	if s.Maximum == nil {
		s.Maximum = new(most)
	}
}

func keepAllReadable(crd *apiextensionsv1.CustomResourceDefinition) {
	for _, v := range crd.Spec.Versions {
		keepReadable(v.Schema.OpenAPIV3Schema)
	}
}
