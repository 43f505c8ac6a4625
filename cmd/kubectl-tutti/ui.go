// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tutti-project/tutti/pkg/engine"
	"github.com/tutti-project/tutti/pkg/page"
	"github.com/tutti-project/tutti/pkg/snapshot"
)

// serving is where the page is served and what it shows beside the cluster.
type serving struct {
	address string
	port    uint16
	names   []string // by which browsers may call it, beside loopback ones
	drafts  string   // a file of manifests
}

func newUI(e *environment) *cobra.Command {
	var s serving
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "A page in your browser: the fabric, who has which GPUs, what waits and why.",
		Long: `Serves a page on this machine and prints its address. It shows the fabric as
spines, racks, hosts and GPUs, who has them, and the gangs that wait with their
verdict, follows the cluster, and answers what a chosen job would get. It uses
your rights, reads only, and loads nothing from elsewhere.`,
		Example: `  kubectl tutti ui
  kubectl tutti ui --port 8080
  kubectl tutti ui -f job.yaml
  kubectl tutti ui --snapshot report.yaml`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return e.ui(cmd.Context(), s) },
	}
	flags := cmd.Flags()
	flags.StringVar(&s.address, "address", "127.0.0.1", "the IP address to serve on; one that is not a loopback address needs --accept-host, and whoever reaches it sees the cluster with your rights")
	flags.Uint16Var(&s.port, "port", 0, "the port to serve on; 0 takes a free one")
	flags.StringSliceVar(&s.names, "accept-host", nil, "names, beside those of the loopback interface, by which browsers may call the page")
	flags.StringVarP(&s.drafts, "filename", "f", "", "manifests of jobs that are not created, to ask what they would get; - is standard input")
	flags.StringVar(&e.from, "snapshot", "", "the same as --from")
	return cmd
}

func (e *environment) ui(ctx context.Context, s serving) error {
	ip := net.ParseIP(s.address)
	if ip == nil {
		return fmt.Errorf("--address %s: want an IP address", s.address)
	}
	if !ip.IsLoopback() && len(s.names) == 0 {
		return fmt.Errorf("--address %s is not a loopback address: name with --accept-host by which names it may be called, if everybody who reaches it shall see the cluster with your rights", s.address)
	}
	options, err := e.pageOptions(ctx, s)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(s.address, strconv.Itoa(int(s.port))))
	if err != nil {
		return fmt.Errorf("serving the page: %w", err)
	}
	fmt.Fprintf(e.out, "http://%s/ shows %s, until Ctrl-C\n", listener.Addr(), options.Source)
	server := &http.Server{Handler: page.New(options), ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the page: %w", err)
	}
	return nil
}

func (e *environment) pageOptions(ctx context.Context, s serving) (page.Options, error) {
	config, err := e.schedulerConfig(ctx)
	if err != nil {
		return page.Options{}, err
	}
	levels, err := engine.LevelsOf(config)
	if err != nil {
		return page.Options{}, err
	}
	options := page.Options{Levels: levels, Names: s.names}
	if s.drafts != "" {
		if options.Drafts, err = e.drafts(ctx, s.drafts); err != nil {
			return page.Options{}, err
		}
	}
	asker := &asker{environment: e, config: config, drafts: options.Drafts, cluster: e.cluster}
	options.Plan = asker.plan
	if e.from == "" {
		options.Live = true
		options.Source, options.Look, err = e.follow(ctx)
		return options, err
	}
	file, err := e.cluster(ctx)
	if err != nil {
		return page.Options{}, err
	}
	view, err := page.ViewOf(file)
	if err != nil {
		return page.Options{}, fmt.Errorf("%s: %w", e.from, err)
	}
	asker.cluster = func(context.Context) (*snapshot.Snapshot, error) { return file, nil }
	options.Source, options.Taken = filepath.Base(e.from), file.Taken
	options.Look = func(known uint64) (uint64, *page.View, error) {
		if known == 0 {
			return 1, view, nil
		}
		return 1, nil, nil
	}
	return options, nil
}

// drafts reads manifests and lets the API server check them.
func (e *environment) drafts(ctx context.Context, path string) ([]*unstructured.Unstructured, error) {
	objects, err := e.manifests(path)
	if err != nil {
		return nil, err
	}
	if err := e.dryRun(ctx, objects); err != nil {
		return nil, err
	}
	var jobs []*unstructured.Unstructured
	for _, o := range objects {
		if o.GetKind() == "TFJob" {
			jobs = append(jobs, o)
		}
	}
	if len(jobs) == 0 {
		return nil, fmt.Errorf("%s holds no TFJob", path)
	}
	return jobs, nil
}

// follow watches the cluster.
func (e *environment) follow(ctx context.Context) (source string, look func(uint64) (uint64, *page.View, error), err error) {
	config, err := e.restConfig()
	if err != nil {
		return "", nil, err
	}
	raw, err := e.clientConfig().RawConfig()
	if err != nil {
		return "", nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	source = raw.CurrentContext
	if e.overrides.CurrentContext != "" {
		source = e.overrides.CurrentContext
	}
	if source == "" {
		source = config.Host
	}
	f := &follower{note: func(text string) { fmt.Fprintln(e.err, "note:", text) }}
	if err := f.start(ctx, config); err != nil {
		return "", nil, err
	}
	return source, f.look, nil
}
