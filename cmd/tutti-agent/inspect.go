// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cliflag "k8s.io/component-base/cli/flag"
	"sigs.k8s.io/yaml"

	"github.com/tutti-project/tutti/pkg/agent"
	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
	"github.com/tutti-project/tutti/pkg/discovery"
)

// What inspect exits with, beside 0 for healthy GPUs and 1 for an error in how it was called.
const (
	exitNothingSeen = 2 // which GPUs there are is not known, or there is none
	exitUnhealthy   = 3 // a GPU must get no pod
)

// inspectLimit is how long all sources may take.
const inspectLimit = 2 * time.Minute

type inspectOptions struct {
	sources sourceOptions
	output  string
}

func newInspectCommand() *cobra.Command {
	o := &inspectOptions{sources: newSourceOptions("nvml", "podresources"), output: "table"}
	o.sources.node = os.Getenv(nodeVariable)
	var flags cliflag.NamedFlagSets
	o.sources.addFlags(flags.FlagSet("sources"))
	set := flags.FlagSet("output")
	set.StringVarP(&o.output, "output", "o", o.output, "table for people, or yaml: a NodeTopology, as 'publish -f' takes it.")
	set.StringVar(&o.sources.node, "node-name", o.sources.node, "What the node is called. Default: the environment variable "+nodeVariable+", or the host's name.")
	command := &cobra.Command{
		Use:   "inspect",
		Short: "Print what is seen of this node's GPUs",
		Long: fmt.Sprintf(`inspect looks at the node once and prints its GPUs, how they are linked (as "nvidia-smi topo -m" does), and which
sets of them are linked how well. It asks no API server.

It exits with 0 when all GPUs are healthy, with %d when GPUs cannot be seen or there is none, and with %d when one is
unhealthy.`, exitNothingSeen, exitUnhealthy),
	}
	return prepare(command, flags, func(ctx context.Context) error {
		return o.inspect(ctx, command.OutOrStdout())
	})
}

func (o *inspectOptions) inspect(ctx context.Context, out io.Writer) error {
	if o.output != "table" && o.output != "yaml" {
		return fmt.Errorf("--output=%s: it can be table or yaml", o.output)
	}
	if o.sources.node == "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("naming the node: %w", err)
		}
		o.sources.node = host
	}
	polls, err := o.sources.open()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, inspectLimit)
	defer cancel()
	var opened []discovery.Source
	for _, poll := range polls {
		opened = append(opened, poll.Source)
	}
	return o.print(out, agent.Look(ctx, opened))
}

func (o *inspectOptions) print(out io.Writer, answers []agent.Answer) error {
	report := agent.ReportOf(answers)
	if report.Spec == nil || len(report.Spec.GPUs)+len(report.Status.Unhealthy) == 0 {
		for _, answer := range answers {
			if answer.Err != nil {
				fmt.Fprintf(out, "%s: %v\n", answer.Source, answer.Err)
			}
		}
		return exitError{exitNothingSeen, "no GPU can be seen on " + o.sources.node}
	}
	var err error
	if o.output == "yaml" {
		err = printYAML(out, o.sources.node, report)
	} else {
		printTables(out, o.sources.node, report, answers)
	}
	if err == nil && len(report.Status.Unhealthy) > 0 {
		err = exitError{code: exitUnhealthy, message: fmt.Sprintf("%d of the GPUs must get no pod", len(report.Status.Unhealthy))}
	}
	return err
}

// withNoneFree says that no GPU is free, where the text says nothing of it, which 'publish' takes for
// all that are not given.
func withNoneFree(text []byte) ([]byte, error) {
	var object map[string]any
	if err := yaml.Unmarshal(text, &object); err != nil {
		return nil, err
	}
	if status, ok := object["status"].(map[string]any); ok {
		status["free"] = []string{}
	}
	return yaml.Marshal(object)
}

// printYAML leaves out what the API server and the agent fill in.
func printYAML(out io.Writer, node string, report agent.Report) error {
	object := v1alpha1.NodeTopology{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "NodeTopology"},
		ObjectMeta: metav1.ObjectMeta{Name: node},
		Spec:       *report.Spec,
		Status:     report.Status,
	}
	object.Status.Conditions = nil
	text, err := yaml.Marshal(object)
	if err == nil && meta.IsStatusConditionTrue(report.Status.Conditions, v1alpha1.NodeTopologyReady) && len(report.Status.Free) == 0 {
		text, err = withNoneFree(text)
	}
	if err != nil {
		return errors.Join(errors.New("writing YAML"), err)
	}
	_, err = out.Write(text)
	return err
}
