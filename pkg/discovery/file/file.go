// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package file answers what a file says about nodes' GPUs: for tests, for simulated nodes, and for
// machines that are described by hand. The file holds NodeTopology objects as YAML.
package file

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"k8s.io/apimachinery/pkg/util/yaml"
	strict "sigs.k8s.io/yaml"

	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
	"github.com/tutti-project/tutti/pkg/discovery"
)

// Source is the object of one node in a file. The file is read anew every time.
type Source struct {
	path, node string
	hardware   bool // alone
}

// New makes the source of a node.
func New(path, node string) *Source { return &Source{path: path, node: node} }

// NewHardware makes the source of what a node has. What the file says of pods and free GPUs is
// left out: another source sees them.
func NewHardware(path, node string) *Source { return &Source{path: path, node: node, hardware: true} }

// Name is "file".
func (s *Source) Name() string { return "file" }

// Discover reads the file.
func (s *Source) Discover(context.Context) (discovery.Facts, error) {
	topologies, err := Read(s.path)
	if errors.Is(err, os.ErrNotExist) {
		return discovery.Facts{}, discovery.Unavailablef("FileNotFound", "%v", err)
	}
	if err != nil {
		return discovery.Facts{}, discovery.Unavailablef("FileInvalid", "%v", err)
	}
	for i := range topologies {
		if topologies[i].Name == s.node {
			facts := FactsOf(&topologies[i])
			if s.hardware {
				facts.Devices = nil
			}
			return facts, nil
		}
	}
	return discovery.Facts{}, discovery.Unavailablef("NodeNotInFile", "%s has no NodeTopology named %s", s.path, s.node)
}

// FactsOf are what an object of a file says. GPUs that its status gives to pods are theirs. Where
// it does not say which are free (an empty list does), all others are that it does not call
// unhealthy.
func FactsOf(topology *v1alpha1.NodeTopology) discovery.Facts {
	devices := &discovery.Devices{Allocatable: slices.Clone(topology.Status.Free)}
	if topology.Status.Free == nil {
		for _, gpu := range topology.Spec.GPUs {
			devices.Allocatable = append(devices.Allocatable, gpu.UUID)
		}
	}
	for _, given := range topology.Status.Given {
		devices.Given = append(devices.Given, discovery.Given{Namespace: given.Namespace, Pod: given.Pod, IDs: slices.Clone(given.GPUs)})
		devices.Allocatable = append(devices.Allocatable, given.GPUs...)
	}
	slices.Sort(devices.Allocatable)
	devices.Allocatable = slices.Compact(devices.Allocatable)
	return discovery.Facts{Hardware: &topology.Spec, Unhealthy: topology.Status.Unhealthy, Devices: devices}
}

// Read reads the NodeTopologies of a file: one or more YAML documents. Unknown fields and names
// that occur twice are errors.
func Read(path string) ([]v1alpha1.NodeTopology, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var topologies []v1alpha1.NodeTopology
	names := map[string]bool{}
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for n := 1; ; n++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return topologies, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		var topology v1alpha1.NodeTopology
		if err := strict.UnmarshalStrict(document, &topology); err != nil {
			return nil, fmt.Errorf("reading document %d of %s: %w", n, path, err)
		}
		if topology.Kind == "" && topology.Name == "" {
			continue // nothing between two separators
		}
		if err := check(topology, names); err != nil {
			return nil, fmt.Errorf("document %d of %s: %w", n, path, err)
		}
		topologies = append(topologies, topology)
	}
}

func check(topology v1alpha1.NodeTopology, names map[string]bool) error {
	want := v1alpha1.SchemeGroupVersion.WithKind("NodeTopology")
	if topology.GroupVersionKind() != want {
		return fmt.Errorf("is %s, want %s", topology.GroupVersionKind(), want)
	}
	if topology.Name == "" || names[topology.Name] {
		return fmt.Errorf("metadata.name %q is empty or used before", topology.Name)
	}
	names[topology.Name] = true
	return nil
}
