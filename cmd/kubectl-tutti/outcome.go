// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/tutti-project/tutti/pkg/engine"
	"github.com/tutti-project/tutti/pkg/snapshot"
	"github.com/tutti-project/tutti/pkg/topology"
	"github.com/tutti-project/tutti/pkg/whatif"
)

func (e *environment) levels(ctx context.Context) ([]topology.Level, error) {
	config, err := e.schedulerConfig(ctx)
	if err != nil {
		return nil, err
	}
	return engine.LevelsOf(config)
}

// tree is the fabric of the snapshot.
func (e *environment) tree(s *snapshot.Snapshot, config *schedulerconfig.KubeSchedulerConfiguration) (*topology.Tree, error) {
	levels, err := engine.LevelsOf(config)
	if err != nil {
		return nil, err
	}
	var hosts []topology.HostLabels
	for _, node := range s.Of("Node") {
		hosts = append(hosts, topology.HostLabels{Name: node.GetName(), Labels: node.GetLabels()})
	}
	return topology.New(levels, hosts), nil
}

// printOutcome shows the verdict and a line for each node.
func printOutcome(w io.Writer, o *whatif.Outcome, tree *topology.Tree) {
	verdict := "would wait"
	switch {
	case o.Placed:
		verdict = "would start"
	case o.Soon:
		verdict = "would start soon"
	case o.Failed:
		verdict = "would fail"
	}
	if o.Suspended {
		verdict = "is suspended; resumed now, it " + verdict
	}
	fmt.Fprintf(w, "%s %s: %s\n", o.Target, verdict, o.Message)
	if len(o.Evicted) > 0 {
		fmt.Fprintf(w, "%s would be evicted for it: %s\n", plural(len(o.Evicted), "pod"), names(o.Evicted, ", "))
	}
	if !o.Placed {
		return
	}
	type line struct {
		node string
		host int
		pods []string
	}
	byNode := map[string]*line{}
	var lines []*line
	for _, pod := range o.Pods {
		if pod.Node == "" {
			continue
		}
		l := byNode[pod.Node]
		if l == nil {
			host, _ := tree.HostIndex(pod.Node)
			l = &line{node: pod.Node, host: host}
			byNode[pod.Node] = l
			lines = append(lines, l)
		}
		name := pod.Name
		if pod.Running {
			name += " (runs)"
		}
		l.pods = append(l.pods, name)
	}
	slices.SortFunc(lines, func(a, b *line) int { return a.host - b.host })
	fmt.Fprintf(w, "NODE\tWHERE\tPODS\n")
	for _, l := range lines {
		fmt.Fprintf(w, "%s\t%s\t%s\n", l.node, whereIs(tree, l.node), strings.Join(l.pods, " "))
	}
}

// whereIs is the path of the narrowest domain above the node that labels name.
func whereIs(tree *topology.Tree, node string) string {
	host, ok := tree.HostIndex(node)
	if !ok {
		return ""
	}
	for level := len(tree.Levels()) - 2; level > 0; level-- {
		if d := tree.Domain(tree.DomainOf(host, level)); tree.IsNamed(d.ID) {
			return tree.Levels()[level] + " " + d.Path
		}
	}
	return ""
}
