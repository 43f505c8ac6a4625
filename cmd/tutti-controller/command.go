// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/term"
)

// domainVariable is where upstream's operator reads the cluster's DNS domain; installations set it already.
const domainVariable = "CUSTOM_CLUSTER_DOMAIN"

func newCommand() *cobra.Command {
	options := defaultOptions()
	logging := logsapi.NewLoggingConfiguration()
	flags := options.flags()
	logsapi.AddFlags(logging, flags.FlagSet("logs"))
	globalflag.AddGlobalFlags(flags.FlagSet("global"), "tutti-controller", logs.SkipLoggingConfigurationFlags())

	command := &cobra.Command{
		Use:   "tutti-controller",
		Short: "Run TFJobs as gangs",
		Long: `tutti-controller watches TFJobs (kubeflow.org). For each it creates a PodGroup, one service and one pod
per replica, tells every pod its peers in TF_CONFIG, and keeps the job's status.

The environment variable ` + domainVariable + ` is the DNS domain appended to host names in TF_CONFIG.`,
		Args: cobra.NoArgs,
		// main reports errors; how to call the program helps with errors in the flags only.
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := logsapi.ValidateAndApply(logging, nil); err != nil {
				return err
			}
			options.domain = os.Getenv(domainVariable)
			if err := options.validate(); err != nil {
				return err
			}
			return run(untilSignal(command.Context()), options)
		},
	}
	for _, set := range flags.FlagSets {
		command.Flags().AddFlagSet(set)
	}
	columns, _, _ := term.TerminalSize(command.OutOrStdout())
	cliflag.SetUsageAndHelpFunc(command, flags, columns)
	command.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fmt.Errorf("%w\nSee '%s --help'", err, c.CommandPath())
	})
	return command
}

// untilSignal ends with the first SIGTERM or SIGINT; a second one ends the process.
func untilSignal(ctx context.Context) context.Context {
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, restore := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	context.AfterFunc(ctx, restore)
	return ctx
}
