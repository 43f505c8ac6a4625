// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"

	"sigs.k8s.io/yaml"

	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
	"github.com/tutti-project/tutti/pkg/clusterview/machines"
)

// descriptionName is the file, in the folder of device plugins, that tutti-agent
// reads instead of asking a driver.
const descriptionName = "gpusim.yaml"

// describe writes a node's GPUs, which are those of a host file, as the
// NodeTopology that an agent's source "file" takes.
func describe(host, node, path string, sick []int) error {
	object, err := machines.Read(host, node)
	if err != nil {
		return err
	}
	object.APIVersion, object.Kind = v1alpha1.SchemeGroupVersion.String(), "NodeTopology"
	for _, i := range sick {
		object.Status.Unhealthy = append(object.Status.Unhealthy, v1alpha1.UnhealthyGPU{
			UUID: machines.UUID(node, i), Reason: "Simulated", Message: "gpusim was told that it is unhealthy",
		})
	}
	text, err := yaml.Marshal(object)
	if err != nil {
		return err
	}
	// Renamed: nobody reads a half of it.
	if err := os.WriteFile(path+".new", text, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
