// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/klog/v2"
	schedulerserverconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/tutti-project/tutti/pkg/engine"
)

// setup makes the scheduler from the command line.
func setup(ctx context.Context, opts *options.Options) (*schedulerserverconfig.CompletedConfig, *scheduler.Scheduler, error) {
	config, err := configure(ctx, opts)
	if err != nil {
		return nil, nil, err
	}
	var profiles []schedulerconfig.KubeSchedulerProfile
	completed, sched, err := engine.New(ctx, config, scheduler.WithBuildFrameworkCapturer(func(profile schedulerconfig.KubeSchedulerProfile) {
		profiles = append(profiles, profile)
	}))
	if err != nil {
		return nil, nil, err
	}
	if err := options.LogOrWriteConfig(klog.FromContext(ctx), opts.WriteConfigTo, &completed.ComponentConfig, profiles); err != nil {
		return nil, nil, err
	}
	return completed, sched, nil
}

// configure reads command line and file.
func configure(ctx context.Context, opts *options.Options) (*schedulerserverconfig.Config, error) {
	if err := engine.CheckGates(); err != nil {
		return nil, err
	}
	defaults, err := engine.DefaultConfiguration()
	if err != nil {
		return nil, err
	}
	opts.ComponentConfig = defaults
	if errs := opts.Validate(); len(errs) > 0 {
		return nil, utilerrors.NewAggregate(errs)
	}
	config, err := opts.Config(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	return config, nil
}
