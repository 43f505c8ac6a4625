// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// Flags of training-operator that its manifests may carry. Those with a meaning here have their names among ours, or are
// translated; the others are accepted, so that a manifest need not change, and say that they do nothing.

// kind is the one kind of job that is served.
var kind = strings.ToLower(kubeflowv1.TFJobKind)

// ignored are flags without a meaning, and why.
var ignored = []struct {
	name, why string
	isSwitch  bool
}{
	{name: "webhook-server-port", why: "validation is part of the CustomResourceDefinition, there is no webhook"},
	{name: "webhook-service-name", why: "there is no webhook"},
	{name: "webhook-secret-name", why: "there is no webhook, and so no certificate of one"},
	{name: "zap-devel", why: "see --logging-format and --v", isSwitch: true},
	{name: "zap-encoder", why: "see --logging-format"},
	{name: "zap-log-level", why: "see --v"},
	{name: "zap-stacktrace-level", why: "stack traces are not logged"},
	{name: "zap-time-encoding", why: "see --logging-format"},
	{name: "pytorch-init-container-image", why: "only TFJobs are served"},
	{name: "pytorch-init-container-max-tries", why: "only TFJobs are served"},
	{name: "pytorch-init-container-template-file", why: "only TFJobs are served"},
	{name: "mpi-kubectl-delivery-image", why: "only TFJobs are served"},
}

// upstreamFlags declares them.
func (o *options) upstreamFlags(set *pflag.FlagSet) {
	set.StringSliceVar(&o.schemes, "enable-scheme", nil, "The kinds of jobs to serve. Only "+kind+" is there.")
	set.StringVar(&o.gangScheduler, "gang-scheduler-name", "",
		"The same as --scheduler-name; none is --pod-group-api=none with the cluster's own scheduler.")
	for _, flag := range ignored {
		// A string takes every value that upstream's flag would.
		set.String(flag.name, "", "Has no effect: "+flag.why+".")
		if flag.isSwitch {
			set.Lookup(flag.name).NoOptDefVal = "true"
		}
		_ = set.MarkHidden(flag.name) // the flag exists
	}
}

// ignoredFlags says what of the given flags has no effect.
func ignoredFlags(set *pflag.FlagSet) (warnings []string) {
	for _, flag := range ignored {
		if set.Changed(flag.name) {
			warnings = append(warnings, fmt.Sprintf("--%s has no effect: %s", flag.name, flag.why))
		}
	}
	return warnings
}

// translate turns upstream's settings into ours. Empty is as if the flag were not given: where upstream makes no gangs then,
// gangs are what Tutti is for.
func (o *options) translate() error {
	others := slices.DeleteFunc(slices.Clone(o.schemes), func(s string) bool { return strings.EqualFold(s, kind) })
	if len(others) > 0 {
		return fmt.Errorf("--enable-scheme=%s is not supported; only %s is served", strings.Join(others, ","), kind)
	}
	switch {
	case o.gangScheduler == "":
	case strings.EqualFold(o.gangScheduler, "volcano"):
		return fmt.Errorf("--gang-scheduler-name=%s is not supported: no PodGroups of Volcano are made", o.gangScheduler)
	case o.gangScheduler == "none":
		o.podGroupAPI, o.schedulerName = podGroupNone, defaultScheduler
	default:
		o.schedulerName = o.gangScheduler
	}
	return nil
}
