// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Command demo shows Tutti at work on this machine: a real control plane, 64
// simulated nodes, the two programs, and jobs that come, wait and go. It runs
// until Ctrl-C; with DEMO=once in the environment it exits after the show.
// Either way the exit code says whether all went as it should, and neither a
// process nor a file is left.
package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/tutti-project/tutti/test/controlplane"
)

func main() {
	dir := flag.String("dir", ".demo", "the folder for everything that the demo writes; removed at the end")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	out := newScreen(os.Stdout)
	if err := run(ctx, out, *dir, os.Getenv("DEMO") == "once"); err != nil {
		out.failure(err)
		os.Exit(1)
	}
}

// run is the whole life of the folder: made, used, removed.
func run(ctx context.Context, out *screen, dir string, once bool) (err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return err
	}
	release, err := claim(dir)
	if err != nil {
		return err
	}
	defer func() {
		release()
		err = errors.Join(err, sweep(out, dir))
	}()

	out.heading("A control plane on this machine, in %s", relative(dir))
	plane, err := bringUp(ctx, out, dir)
	if plane != nil {
		defer plane.Stop()
	}
	if err != nil {
		return interrupted(ctx, err)
	}
	if err := show(ctx, out, plane); err != nil {
		if ctx.Err() == nil {
			out.logs(plane)
		}
		return interrupted(ctx, errors.Join(err, plane.Failure()))
	}
	if once {
		return nil
	}
	return linger(ctx, out, plane)
}

// linger keeps everything running until Ctrl-C or until a program has died.
func linger(ctx context.Context, out *screen, plane *controlplane.ControlPlane) error {
	out.heading("Yours to try, until Ctrl-C")
	out.kubectl(plane.Kubeconfig)
	died := make(chan error, 1)
	for _, p := range plane.Processes() {
		go func() {
			<-p.Done()
			died <- p.Failure()
		}()
	}
	select {
	case <-ctx.Done():
		out.line("")
		return nil
	case err := <-died:
		return err
	}
}

// interrupted is nil when it was the user who ended the work that failed.
func interrupted(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
		return err
	}
}

func relative(path string) string {
	here, err := os.Getwd()
	if err != nil {
		return path
	}
	short, err := filepath.Rel(here, path)
	if err != nil || len(short) > len(path) {
		return path
	}
	return short
}
