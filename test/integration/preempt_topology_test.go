// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	tuttiapi "github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/test/controlplane"
)

// rackOf is where a node is.
func rackOf(ctx context.Context, plane *controlplane.ControlPlane, node string) (string, error) {
	n, err := plane.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return n.Labels[controlplane.RackLabel], nil
}

// TestVictimsOfARackStandInOneRack is case 28: a gang that must have a whole rack
// has the pods of one rack evicted; where an important pod stands in each rack,
// nobody's.
func TestVictimsOfARackStandInOneRack(t *testing.T) {
	classes(t)
	s := newScene(t, shared)
	whole := func(name string) func(context.Context) error {
		return s.create(annotated(ofClass("high", job(name, workers(8, 8))), tuttiapi.RequiredTopologyAnnotation, "rack"))
	}
	s.run([]step{
		{
			name:  "low pods on all nodes",
			do:    func(ctx context.Context) error { return s.createElastic(ctx, "filler", 1, nodes, nil, nil) },
			check: s.bound("filler", nodes),
		},
		{name: "a gang for a rack", do: whole("urgent"), check: all(s.bound("urgent", 8), s.racks("urgent", 1))},
	})
	racks := map[string]int{}
	for _, l := range s.members("filler") {
		if !l.gone.IsZero() {
			rack, err := rackOf(t.Context(), s.plane, l.node)
			must(t, err)
			racks[rack]++
		}
	}
	if len(racks) != 1 || s.evicted("filler") != 8 {
		t.Errorf("victims stood in %v, want 8 in one rack", racks)
	}
	s.run([]step{
		{
			name: "an important pod in each rack",
			do: func(ctx context.Context) (err error) {
				for i := range 8 {
					pod := single(fmt.Sprintf("guard-%d", i), "high", 8)
					pod.Spec.NodeSelector = map[string]string{controlplane.RackLabel: fmt.Sprintf("r%d", i+1)}
					if racks[fmt.Sprintf("r%d", i+1)] > 0 {
						continue // the first gang is important itself
					}
					err = errors.Join(err, s.createPod(ctx, pod))
				}
				return err
			},
			check: func(ctx context.Context) error {
				if n := s.evicted("filler"); n != 8+7 {
					return fmt.Errorf("%d pods were evicted, want 7 more than 8", n)
				}
				return nil
			},
		},
		{name: "no rack is to be had", do: whole("late"), check: stays(s.refused("late", 8))},
	})
	if n := s.evicted("filler"); n != 8+7 {
		t.Errorf("%d pods were evicted, want none for a gang that cannot start", n-8-7)
	}
}
