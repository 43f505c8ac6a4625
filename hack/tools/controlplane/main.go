// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Command controlplane is every program of the test control plane in one
// binary, so that the packages that they share are compiled and linked once.
// Which program runs is the name it was called by (bin/ holds a link for each)
// or else its first argument:
//
//	controlplane kube-apiserver --help
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	_ "time/tzdata" // CronJob time zones, as in the programs' own mains

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kwokconfig "sigs.k8s.io/kwok/pkg/config"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
	kwoklog "sigs.k8s.io/kwok/pkg/log"
	"sigs.k8s.io/kwok/pkg/utils/signals"
)

// programs in the order of the usage text.
var programs = []struct {
	name string
	run  func() int
}{
	{"etcd", func() int { etcdmain.Main(os.Args); return 0 }},
	{"kube-apiserver", func() int { return cli.Run(apiserver.NewAPIServerCommand()) }},
	{"kube-controller-manager", func() int { return cli.Run(controllermanager.NewControllerManagerCommand()) }},
	{"kube-scheduler", func() int { return cli.Run(scheduler.NewSchedulerCommand()) }},
	{"kubectl", runKubectl},
	{"kwok", runKwok},
}

func main() {
	name := filepath.Base(os.Args[0])
	if name == "controlplane" {
		if len(os.Args) < 2 {
			usage()
		}
		name = os.Args[1]
		os.Args = os.Args[1:]
	}
	for _, p := range programs {
		if p.name == name {
			os.Exit(p.run())
		}
	}
	usage()
}

func usage() {
	names := make([]string, 0, len(programs))
	for _, p := range programs {
		names = append(names, p.name)
	}
	fmt.Fprintf(os.Stderr, "usage: controlplane %s [flags]\n", strings.Join(names, "|"))
	os.Exit(2)
}

func runKubectl() int {
	logs.GlogSetter(kubectl.GetLogVerbosity(os.Args)) //nolint:errcheck // a bad -v is reported by the flag parser below
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err) // prints and exits
	}
	return 0
}

// runKwok gives KWOK its logger and configuration through the context, as its
// own main does: its command expects both there.
func runKwok() int {
	// cobra adds the process-wide flags to every root command, and the other
	// programs' packages have put a --version there that clashes with KWOK's.
	pflag.CommandLine = pflag.NewFlagSet("kwok", pflag.ContinueOnError)
	flags := pflag.NewFlagSet("global", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.Usage = func() {}
	ctx, _ := kwoklog.InitFlags(signals.SetupSignalContext(), flags)
	ctx, err := kwokconfig.InitFlags(ctx, flags)
	if err != nil {
		fmt.Fprintln(os.Stderr, "kwok:", err)
		return 1
	}
	return execKwok(ctx, flags)
}

func execKwok(ctx context.Context, flags *pflag.FlagSet) int {
	command := kwok.NewCommand(ctx)
	command.PersistentFlags().AddFlagSet(flags)
	if err := command.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "kwok:", err)
		return 1
	}
	return 0
}
