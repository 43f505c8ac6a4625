// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

func newSnapshot(e *environment) *cobra.Command {
	var anonymize bool
	var path string
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Write the cluster, as placement sees it, to a file that replay and --from read.",
		Long: `Writes the objects that placement depends on as one YAML list: nodes, pods,
groups, jobs, volumes, budgets. Commands, environments and container states are
left out. With --anonymize every name, label and annotation that is not
Kubernetes' own or a level's is replaced, in a way that keeps the order of names,
so that the same decision follows from the file.`,
		Example: `  kubectl tutti snapshot -f cluster.yaml
  kubectl tutti snapshot --anonymize -f report.yaml
  kubectl tutti why worker-0 --from cluster.yaml`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			s, err := e.cluster(cmd.Context())
			if err != nil {
				return err
			}
			if anonymize {
				levels, err := e.levels(cmd.Context())
				if err != nil {
					return err
				}
				s = s.Anonymize(levels)
			}
			out := e.out
			if path != "" && path != "-" {
				file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
				if err != nil {
					return err
				}
				defer func() {
					if closed := file.Close(); err == nil {
						err = closed
					}
				}()
				out = file
			}
			if err := s.Write(out); err != nil {
				return err
			}
			if out != e.out {
				fmt.Fprintf(e.err, "wrote %s, %s and %s to %s\n", plural(len(s.Of("Node")), "node"), plural(len(s.Of("Pod")), "pod"), plural(len(s.Of("PodGroup")), "pod group"), path)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&anonymize, "anonymize", false, "replace all names by others")
	cmd.Flags().StringVarP(&path, "filename", "f", "-", "the file to write, which must not exist; - is standard output")
	return cmd
}
