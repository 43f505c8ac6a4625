// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	topologyv1alpha1 "github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
	"github.com/tutti-project/tutti/pkg/snapshot"
)

// View is a cluster at one moment. The page does not write to the objects.
type View struct {
	Nodes        []*v1.Node
	Pods         []*v1.Pod
	Topologies   []*topologyv1alpha1.NodeTopology
	Groups, Jobs []*unstructured.Unstructured // PodGroups and TFJobs
	// Trouble is why the view may be old; empty if it is not.
	Trouble string
}

// ViewOf is the view of a snapshot.
func ViewOf(s *snapshot.Snapshot) (*View, error) {
	view := &View{Groups: s.Of("PodGroup"), Jobs: s.Of("TFJob")}
	var err error
	if view.Nodes, err = snapshot.Typed[v1.Node](s, "Node"); err != nil {
		return nil, err
	}
	if view.Pods, err = snapshot.Typed[v1.Pod](s, "Pod"); err != nil {
		return nil, err
	}
	return view, view.AddTopologies(s.Of("NodeTopology"))
}

// AddTopologies adds the agents' reports.
func (v *View) AddTopologies(reports []*unstructured.Unstructured) error {
	var err error
	v.Topologies, err = snapshot.Typed[topologyv1alpha1.NodeTopology](&snapshot.Snapshot{Objects: reports}, "NodeTopology")
	return err
}
