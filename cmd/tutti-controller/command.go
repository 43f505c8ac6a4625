// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/term"
	"k8s.io/klog/v2"

	"github.com/tutti-project/tutti/pkg/program"
)

// Variables of the environment that upstream's operator reads; installations set them already.
const (
	domainVariable    = "CUSTOM_CLUSTER_DOMAIN"
	namespaceVariable = "KUBEFLOW_NAMESPACE"
)

func newCommand() *cobra.Command {
	options := defaultOptions()
	options.namespace = os.Getenv(namespaceVariable)
	logging := logsapi.NewLoggingConfiguration()
	flags := options.flags()
	logsapi.AddFlags(logging, flags.FlagSet("logs"))
	flags.FlagSet("global").Bool("version", false, "Print the version and exit.")
	globalflag.AddGlobalFlags(flags.FlagSet("global"), "tutti-controller", logs.SkipLoggingConfigurationFlags())

	command := &cobra.Command{
		Use:   "tutti-controller",
		Short: "Run TFJobs as gangs",
		Long: `tutti-controller watches TFJobs (kubeflow.org). For each it creates a PodGroup, one service and one pod
per replica, tells every pod its peers in TF_CONFIG, and keeps the job's status.

The environment variable ` + domainVariable + ` is the DNS domain appended to host names in TF_CONFIG. Flags of
training-operator are accepted; those that have no meaning here are named in a warning.`,
		Args:    cobra.NoArgs,
		Version: program.Version(),
		// main reports errors; how to call the program helps with errors in the flags only.
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := logsapi.ValidateAndApply(logging, nil); err != nil {
				return err
			}
			for _, warning := range ignoredFlags(command.Flags()) {
				klog.FromContext(command.Context()).Info("Warning: " + warning)
			}
			options.domain = os.Getenv(domainVariable)
			if err := errors.Join(options.translate(), options.validate()); err != nil {
				return err
			}
			return run(program.UntilSignal(command.Context()), options)
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
