// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

type schema = apiextensionsv1.JSONSchemaProps

// The API server estimates what a rule may cost before it sees an object, and refuses rules over
// lists and strings without a bound. Container names are DNS labels and job names DNS subdomains
// already, but a schema does not say so by itself.
const (
	maxContainers    = 64
	maxContainerName = 63
	maxObjectName    = 253
)

// finishTFJobs makes the versions one schema, and the pod templates in it fit.
//
// Objects are stored as v1 and pruned with its schema, and v1alpha1 is served from them as they
// are: a field that one version lacked would be lost to the other.
func finishTFJobs(crd *apiextensionsv1.CustomResourceDefinition) error {
	var stored *apiextensionsv1.CustomResourceDefinitionVersion
	for i, v := range crd.Spec.Versions {
		if v.Storage {
			stored = &crd.Spec.Versions[i]
		}
	}
	if stored == nil {
		return fmt.Errorf("%s: no version is stored", crd.Name)
	}
	spec := []string{"spec", "tfReplicaSpecs", "*", "template", "spec"}
	legacySpec := []string{"spec", "replicaSpecs", "*", "template", "spec"}
	for _, path := range [][]string{spec, legacySpec} {
		if err := edit(stored.Schema.OpenAPIV3Schema, path, boundPodSpec); err != nil {
			return fmt.Errorf("%s: %w", crd.Name, err)
		}
	}
	err := edit(stored.Schema.OpenAPIV3Schema, []string{"metadata"}, func(metadata *schema) error {
		name := schema{Type: "string", MaxLength: new(int64(maxObjectName))}
		metadata.Properties = map[string]schema{"name": name}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", crd.Name, err)
	}
	for i := range crd.Spec.Versions {
		crd.Spec.Versions[i].Schema = stored.Schema
	}
	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
	return nil
}

// boundPodSpec bounds the containers, and drops the ephemeral ones: no pod can be created with
// them, and without their schema the CRD is small enough for client-side apply.
func boundPodSpec(pod *schema) error {
	containers, ok := pod.Properties["containers"]
	if !ok {
		return fmt.Errorf("no containers")
	}
	containers.MaxItems = new(int64(maxContainers))
	pod.Properties["containers"] = containers
	delete(pod.Properties, "ephemeralContainers")
	return edit(pod, []string{"containers", "*", "name"}, func(name *schema) error {
		name.MaxLength = new(int64(maxContainerName))
		return nil
	})
}

// finishPodGroups adds status.conditions, where the scheduler's verdict is, to the CRD of
// scheduler-plugins.
func finishPodGroups(crd, conditioned *apiextensionsv1.CustomResourceDefinition) error {
	var conditions schema
	err := edit(conditioned.Spec.Versions[0].Schema.OpenAPIV3Schema, []string{"status", "conditions"}, func(s *schema) error {
		conditions = *s
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", conditioned.Name, err)
	}
	for _, v := range crd.Spec.Versions {
		err := edit(v.Schema.OpenAPIV3Schema, []string{"status"}, func(status *schema) error {
			status.Properties["conditions"] = conditions
			return nil
		})
		if err != nil {
			return fmt.Errorf("%s: %w", crd.Name, err)
		}
	}
	return nil
}

// edit applies f to the schema at a path of property names, where * is what a list or a map holds.
func edit(s *schema, path []string, f func(*schema) error) error {
	if len(path) == 0 {
		return f(s)
	}
	name, rest := path[0], path[1:]
	if name == "*" {
		switch {
		case s.Items != nil && s.Items.Schema != nil:
			return edit(s.Items.Schema, rest, f)
		case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
			return edit(s.AdditionalProperties.Schema, rest, f)
		}
		return fmt.Errorf("neither a list nor a map before %s", strings.Join(rest, "."))
	}
	child, ok := s.Properties[name]
	if !ok {
		return fmt.Errorf("no property %s", strings.Join(path, "."))
	}
	if err := edit(&child, rest, f); err != nil {
		return err
	}
	s.Properties[name] = child
	return nil
}
