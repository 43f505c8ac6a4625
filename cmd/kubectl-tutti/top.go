// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tutti-project/tutti/pkg/engine"
	"github.com/tutti-project/tutti/pkg/inventory"
)

func newTop(e *environment) *cobra.Command {
	var resource, level string
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Domains of the fabric with their used and free GPUs, and the largest gang that fits each level.",
		Example: `  kubectl tutti top
  kubectl tutti top --level host
  kubectl tutti top --resource amd.com/gpu -o json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return e.top(cmd.Context(), resource, level) },
	}
	cmd.Flags().StringVar(&resource, "resource", "", "the device to count (default: the one that most nodes have)")
	cmd.Flags().StringVar(&level, "level", "", "the narrowest level to list (default: the one above the host)")
	e.addOutput(cmd)
	return cmd
}

func (e *environment) top(ctx context.Context, resource, narrowest string) error {
	config, err := e.schedulerConfig(ctx)
	if err != nil {
		return err
	}
	levels, err := engine.LevelsOf(config)
	if err != nil {
		return err
	}
	s, err := e.cluster(ctx)
	if err != nil {
		return err
	}
	report, err := inventory.Of(s, levels, resource)
	if err != nil {
		return err
	}
	if narrowest == "" {
		narrowest = report.Levels[max(0, len(report.Levels)-2)].Name
	}
	last := slices.IndexFunc(report.Levels, func(l inventory.Level) bool { return l.Name == narrowest })
	if last < 0 {
		names := make([]string, len(report.Levels))
		for i, l := range report.Levels {
			names[i] = l.Name
		}
		return fmt.Errorf("--level %s: the levels that nodes of this cluster carry are %v", narrowest, names)
	}
	return e.print(report, func(w io.Writer) error {
		fmt.Fprintf(w, "DOMAIN\tNODES\t%s\tUSED\tFREE\tWHOLE NODES FREE\tNOT READY\n", report.Resource)
		for _, d := range report.Domains {
			if d.Level > last {
				continue
			}
			fmt.Fprintf(w, "%*s%s\t%d\t%d\t%d\t%d\t%d\t%d\n", 2*d.Level, "", d.Description, d.Nodes, d.Total, d.Used, d.Free, d.WholeNodes, d.NotReady)
		}
		fmt.Fprintf(w, "\nLEVEL\tDOMAINS\tLARGEST GANG OF 1-GPU PODS\tOF WHOLE NODES\n")
		for _, l := range report.Levels {
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\n", l.Name, l.Domains, l.LargestOfOne, l.LargestOfWhole)
		}
		return nil
	})
}
