// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"time"

	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
	"github.com/tutti-project/tutti/pkg/discovery"
	"github.com/tutti-project/tutti/pkg/discovery/file"
)

// Publish writes the NodeTopology of a node as a file describes it, once, and with a heartbeat.
// The node must exist.
func Publish(ctx context.Context, clients Clients, topology *v1alpha1.NodeTopology, now func() time.Time) error {
	w := &writer{clients: clients, node: topology.Name, now: now}
	_, err := w.write(ctx, reportOfFile(topology), true)
	return err
}

// reportOfFile takes a fingerprint for granted that the file has.
func reportOfFile(topology *v1alpha1.NodeTopology) Report {
	report := ReportOf([]Answer{{Source: "file", Facts: file.FactsOf(topology)}})
	if topology.Status.Fingerprint != "" {
		report.Status.Fingerprint = topology.Status.Fingerprint
	}
	return report
}

// Look asks sources once, for as long as ctx lasts.
func Look(ctx context.Context, sources []discovery.Source) []Answer {
	var answers []Answer
	for _, source := range sources {
		facts, err := answerOf(ctx, source)
		answers = append(answers, Answer{Source: source.Name(), Facts: facts, Err: err})
	}
	return answers
}
