// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/term"

	"github.com/tutti-project/tutti/pkg/discovery/nvml"
	"github.com/tutti-project/tutti/pkg/program"
)

func newCommand() *cobra.Command {
	version := program.Version()
	if !nvml.CanAsk {
		version += ", without the way to the NVIDIA driver (built with CGO_ENABLED=0)"
	}
	command := &cobra.Command{
		Use:   "tutti-agent",
		Short: "Say what GPUs a node has, how they are linked, and which are free",
		Long: `tutti-agent looks at the GPUs of a node: which there are, how they are linked, which are healthy, and
which pods hold them. A DaemonSet runs it as "tutti-agent run" on every node with GPUs; what it sees is the
node's NodeTopology object, by which tutti-scheduler places pods that ask for linked GPUs.`,
		Version: version,
		// main reports errors.
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	command.AddCommand(newRunCommand(), newInspectCommand(), newPublishCommand())
	command.CompletionOptions.HiddenDefaultCmd = true
	command.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fmt.Errorf("%w\nSee '%s --help'", err, c.CommandPath())
	})
	return command
}

// prepare gives a command its flags, in groups, and logging.
func prepare(command *cobra.Command, flags cliflag.NamedFlagSets, work func(context.Context) error) *cobra.Command {
	logging := logsapi.NewLoggingConfiguration()
	logsapi.AddFlags(logging, flags.FlagSet("logs"))
	globalflag.AddGlobalFlags(flags.FlagSet("global"), command.Name(), logs.SkipLoggingConfigurationFlags())
	for _, set := range flags.FlagSets {
		command.Flags().AddFlagSet(set)
	}
	columns, _, _ := term.TerminalSize(command.OutOrStdout())
	cliflag.SetUsageAndHelpFunc(command, flags, columns)
	command.Args = cobra.NoArgs
	command.RunE = func(command *cobra.Command, _ []string) error {
		if err := logsapi.ValidateAndApply(logging, nil); err != nil {
			return err
		}
		return work(program.UntilSignal(command.Context()))
	}
	return command
}
