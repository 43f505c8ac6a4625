// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package labels answers what NVIDIA's GPU feature discovery has written on the node: how many GPUs
// it sees. That names no GPU and knows no links, and so tells only whether the other sources see
// all that there is. The labels of levels are the scheduler's to read.
package labels

import (
	"context"
	"strconv"

	"github.com/tutti-project/tutti/pkg/discovery"
)

// countLabel is the GPUs of one model: where a node has several, the last that the label was written
// for. With MIG's strategy "single" it is the instances, and 0 where the GPUs are cut unevenly.
const countLabel = "nvidia.com/gpu.count"

// Source reads the labels of one node.
type Source struct {
	read func(context.Context) (map[string]string, error)
}

// New makes a source of what gets the node's labels.
func New(read func(context.Context) (map[string]string, error)) *Source { return &Source{read: read} }

// Name is "labels".
func (s *Source) Name() string { return "labels" }

// Discover reads the labels anew.
func (s *Source) Discover(ctx context.Context) (discovery.Facts, error) {
	labels, err := s.read(ctx)
	if err != nil {
		return discovery.Facts{}, discovery.Unavailablef("NodeUnreadable", "the node's labels cannot be read: %v", err)
	}
	value, ok := labels[countLabel]
	if !ok {
		return discovery.Facts{}, discovery.Unavailablef("NoLabel", "the node has no label %s, which NVIDIA's GPU feature discovery writes", countLabel)
	}
	count, err := strconv.Atoi(value)
	if err != nil || count < 0 {
		return discovery.Facts{}, discovery.Unavailablef("LabelInvalid", "the label %s=%q is no number of GPUs", countLabel, value)
	}
	return discovery.Facts{Told: &discovery.Told{GPUs: count}}, nil
}
