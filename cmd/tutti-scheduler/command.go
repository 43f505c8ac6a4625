// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/apiserver/pkg/server"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	"k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/term"
	"k8s.io/component-base/version/verflag"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"

	"github.com/tutti-project/tutti/pkg/engine"
)

// newCommand is kube-scheduler's command around Tutti's own setup: that of
// cmd/kube-scheduler/app has no hook between configuration and engine.
func newCommand() *cobra.Command {
	if err := engine.SetGates(); err != nil {
		panic(err) // a gate that this engine does not have: the build is wrong
	}
	opts := options.NewOptions()
	cmd := &cobra.Command{
		Use: "tutti-scheduler",
		Long: `tutti-scheduler places gangs of pods: all replicas of a job at once, on
nodes whose topology fits the job, or none of them. It runs beside the
cluster's own scheduler, on stock API servers, and takes pods whose
schedulerName is one of its profiles (by default tutti-scheduler). Pods that
are in no gang are scheduled as kube-scheduler does.

Without --config one profile is served, tutti-scheduler, with the lease
tutti-scheduler in namespace tutti-system (the defaults that flags below show for
the lease are kube-scheduler's). Outside a cluster give --kubeconfig.

Flags and configuration file are kube-scheduler's. A profile that enables the
plugin GangTopology gets the settings that it needs by itself; the levels of the
fabric are the plugin's arguments:

  apiVersion: kubescheduler.config.k8s.io/v1
  kind: KubeSchedulerConfiguration
  profiles:
  - schedulerName: tutti-scheduler
    plugins:
      multiPoint:
        enabled:
        - name: GangTopology
    pluginConfig:
    - name: GangTopology
      args:
        levels: # from wide to narrow; of a level's labels the first that a node has counts
        - {name: zone, nodeLabels: [topology.kubernetes.io/zone]}
        - {name: rack, nodeLabels: [example.com/rack]}`,
		SilenceUsage: true,
		Args:         cobra.NoArgs,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			return opts.ComponentGlobalsRegistry.Set() // applies --feature-gates
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			verflag.PrintAndExitIfRequested()
			return run(cmd, opts)
		},
	}
	flags := opts.Flags
	verflag.AddFlags(flags.FlagSet("global"))
	globalflag.AddGlobalFlags(flags.FlagSet("global"), cmd.Name(), logs.SkipLoggingConfigurationFlags())
	for _, set := range flags.FlagSets {
		cmd.Flags().AddFlagSet(set)
	}
	columns, _, _ := term.TerminalSize(cmd.OutOrStdout())
	cliflag.SetUsageAndHelpFunc(cmd, *flags, columns)
	return cmd
}

func run(cmd *cobra.Command, opts *options.Options) error {
	gates := opts.ComponentGlobalsRegistry.FeatureGateFor(compatibility.DefaultKubeComponent)
	if err := logsapi.ValidateAndApply(opts.Logs, gates); err != nil {
		return err
	}
	cliflag.PrintFlags(cmd.Flags())
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	stop := server.SetupSignalHandler()
	go func() {
		<-stop
		cancel()
	}()
	completed, scheduler, err := setup(ctx, opts)
	if err != nil {
		return err
	}
	if mutable, ok := gates.(featuregate.MutableFeatureGate); ok {
		mutable.AddMetrics()
	}
	opts.ComponentGlobalsRegistry.AddMetrics()
	err = app.Run(ctx, completed, scheduler)
	if ctx.Err() != nil {
		fmt.Fprintln(os.Stderr, "tutti-scheduler: stopped")
		return nil
	}
	return err
}
