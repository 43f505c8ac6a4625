// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package program answers what Tutti's programs do alike around their work: how they say their
// version, when they stop, and how they show their health and their metrics. It must not know the
// work.
package program

import (
	"context"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// Version is that of the build, and of the Kubernetes client in it.
func Version() string { return version(debug.ReadBuildInfo()) }

func version(build *debug.BuildInfo, ok bool) string {
	if !ok {
		return "unknown"
	}
	for _, module := range build.Deps {
		if module.Path == "k8s.io/client-go" {
			if module.Replace != nil {
				module = module.Replace
			}
			return build.Main.Version + ", client-go " + module.Version
		}
	}
	return build.Main.Version
}

// UntilSignal ends when the process is told to stop; a second signal ends the process.
func UntilSignal(ctx context.Context) context.Context {
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, restore := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	context.AfterFunc(ctx, restore)
	return ctx
}
