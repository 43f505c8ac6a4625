// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package file answers what a file says about nodes' GPUs: for tests, for simulated nodes, and for
// machines that are described by hand. The file holds NodeTopology objects as YAML.
package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
// that occur twice are errors, which say the line or those of the document.
func Read(path string) ([]v1alpha1.NodeTopology, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// Parse reads what a file of this path holds.
func Parse(path string, data []byte) ([]v1alpha1.NodeTopology, error) {
	var topologies []v1alpha1.NodeTopology
	names := map[string]bool{}
	for _, d := range documentsOf(string(data)) {
		topology, err := d.read()
		if err == nil {
			err = check(topology, names)
		}
		if err != nil {
			return nil, fmt.Errorf("%s, lines %d to %d: %w", path, d.first, d.last, err)
		}
		topologies = append(topologies, topology)
	}
	return topologies, nil
}

// document is one of a file, and the lines that it has there.
type document struct {
	text        string
	first, last int
}

// documentsOf splits a file where lines begin with "---". What holds nothing is none.
func documentsOf(text string) []document {
	var found []document
	var own strings.Builder
	number, first, empty := 0, 1, true
	end := func() {
		if !empty {
			found = append(found, document{own.String(), first, number})
		}
		own.Reset()
		empty = true
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "---") {
			end()
			number++
			first, line = number+1, strings.TrimPrefix(line, "---")
			if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
				continue
			}
			first = number
			own.WriteString(line + "\n")
			empty = false
			continue
		}
		number++
		own.WriteString(line)
		trimmed := strings.TrimSpace(line)
		empty = empty && (trimmed == "" || trimmed[0] == '#')
	}
	end()
	return found
}

func (d document) read() (topology v1alpha1.NodeTopology, err error) {
	var kind metav1.TypeMeta
	if err := d.decode(strict.Unmarshal, &kind); err != nil {
		return topology, err
	}
	if want := v1alpha1.SchemeGroupVersion.WithKind("NodeTopology"); kind.GroupVersionKind() != want {
		return topology, fmt.Errorf("apiVersion and kind are %q and %q; want %q and %q, a document for each node", kind.APIVersion, kind.Kind, want.GroupVersion(), want.Kind)
	}
	return topology, d.decode(strict.UnmarshalStrict, &topology)
}

func (d document) decode(parse func([]byte, any, ...strict.JSONOpt) error, into any) error {
	err := parse([]byte(d.text), into)
	if err == nil {
		return nil
	}
	// Once more, with the lines as they are numbered in the file.
	if again := parse([]byte(strings.Repeat("\n", d.first-1)+d.text), into); again != nil {
		err = again
	}
	return told(err)
}

// told leaves out what is of the parser alone.
func told(err error) error {
	text := err.Error()
	for _, prefix := range []string{"error converting YAML to JSON: ", "yaml: unmarshal errors:\n  ", "error unmarshaling JSON: ", "while decoding JSON: ", "json: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	return errors.New(text)
}

func check(topology v1alpha1.NodeTopology, names map[string]bool) error {
	if topology.Name == "" || names[topology.Name] {
		return fmt.Errorf("metadata.name %q is empty or used before", topology.Name)
	}
	names[topology.Name] = true
	return nil
}
