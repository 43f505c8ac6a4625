// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-project/tutti/pkg/whatif"
)

func newReplay(e *environment) *cobra.Command {
	var preempt bool
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Decide anew about every gang that waits in a snapshot.",
		Example: `  kubectl tutti replay cluster.yaml
  kubectl tutti replay report.yaml --scheduler-config scheduler.yaml -o json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("give one file, which kubectl tutti snapshot wrote")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			e.from = args[0]
			s, err := e.cluster(cmd.Context())
			if err != nil {
				return err
			}
			config, err := e.schedulerConfig(cmd.Context())
			if err != nil {
				return err
			}
			var outcomes []*whatif.Outcome
			for _, gang := range whatif.Waiting(s, schedulersOf(config)) {
				outcome, err := whatif.Run(cmd.Context(), s, whatif.Target{Gang: gang}, whatif.Options{Config: config, Preempt: preempt, Now: e.now})
				if err != nil {
					return err
				}
				outcomes = append(outcomes, outcome)
			}
			return e.print(outcomes, func(w io.Writer) error {
				if len(outcomes) == 0 {
					fmt.Fprintln(w, "no gang waits in this snapshot")
					return nil
				}
				fmt.Fprintf(w, "GANG\tWOULD\tEVICTS\tVERDICT\n")
				for _, o := range outcomes {
					evicts := "-"
					if len(o.Evicted) > 0 {
						evicts = names(o.Evicted, ",")
					}
					would := "wait"
					switch {
					case o.Placed:
						would = "start"
					case o.Soon:
						would = "start soon"
					}
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", o.Target.Gang, would, evicts, o.Message)
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&preempt, "with-preemption", false, "pods may be evicted for a gang")
	e.addOutput(cmd)
	return cmd
}

func names(pods []types.NamespacedName, separator string) string {
	text := make([]string, len(pods))
	for i, pod := range pods {
		text[i] = pod.String()
	}
	return strings.Join(text, separator)
}
