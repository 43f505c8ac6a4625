// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"context"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	topologyv1alpha1 "github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
	"github.com/tutti-project/tutti/pkg/clusterview/machines"
)

// simulated is an agent of a node whose GPUs are described in a file.
type simulated struct{ node, file string }

func startAgent(ctx context.Context, dir, node, address string) (simulated, error) {
	s := simulated{node: node, file: filepath.Join(dir, node+".topology.yaml")}
	if err := s.describe(); err != nil {
		return s, err
	}
	_, err := stage.StartAgent(ctx, node, "--sources=file", "--file="+s.file, "--metrics-bind-address="+address)
	return s, err
}

// describe writes the file: eight GPUs, of which these, by index, are unhealthy.
func (s simulated) describe(unhealthy ...int) error {
	object, err := machines.Read("../../pkg/topology/testdata/hosts/hgx-h100", s.node)
	if err != nil {
		return err
	}
	object.APIVersion, object.Kind = topologyv1alpha1.SchemeGroupVersion.String(), "NodeTopology"
	for _, i := range unhealthy {
		object.Status.Unhealthy = append(object.Status.Unhealthy, topologyv1alpha1.UnhealthyGPU{UUID: machines.UUID(s.node, i), Reason: "GPULost"})
	}
	text, err := yaml.Marshal(object)
	if err != nil {
		return err
	}
	return os.WriteFile(s.file, text, 0o600)
}

// forget takes the file away.
func (s simulated) forget() error { return os.Remove(s.file) }
