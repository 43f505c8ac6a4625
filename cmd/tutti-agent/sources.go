// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/tutti-project/tutti/pkg/agent"
	"github.com/tutti-project/tutti/pkg/discovery"
	"github.com/tutti-project/tutti/pkg/discovery/file"
	"github.com/tutti-project/tutti/pkg/discovery/labels"
	"github.com/tutti-project/tutti/pkg/discovery/nvml"
	"github.com/tutti-project/tutti/pkg/discovery/podresources"
)

// sources are all that there are, in the order of precedence: of what two of them saw, the first
// counts.
var sources = []struct {
	name  string
	what  string
	every time.Duration // how often it is asked while nothing changes
	open  func(*sourceOptions) (discovery.Source, error)
}{
	{"nvml", "the NVIDIA driver: GPUs, links, health", 30 * time.Second, func(o *sourceOptions) (discovery.Source, error) {
		return nvml.New(func() (nvml.Library, error) { return nvml.Open(o.library) }, os.DirFS(o.sysfs)), nil
	}},
	{"file", "a file with NodeTopologies (--file); which GPUs are free only without podresources", 30 * time.Second, func(o *sourceOptions) (discovery.Source, error) {
		if o.file == "" {
			return nil, errors.New("the source file needs --file")
		}
		if slices.Contains(o.names, "podresources") {
			return file.NewHardware(o.file, o.node), nil // which are free the kubelet knows, and while it does not answer nobody does
		}
		return file.New(o.file, o.node), nil
	}},
	{"podresources", "the kubelet: which pods hold which GPUs", 5 * time.Second, func(o *sourceOptions) (discovery.Source, error) {
		return podresources.New(o.socket, o.resource)
	}},
	{"labels", "labels of the node: how many GPUs others see", 5 * time.Minute, func(o *sourceOptions) (discovery.Source, error) {
		if o.labels == nil {
			return nil, errors.New("the source labels needs the API server, which this command does not ask")
		}
		return labels.New(o.labels), nil
	}},
}

// sourceOptions is what sources need to know.
type sourceOptions struct {
	names []string

	node     string
	library  string
	sysfs    string
	file     string
	socket   string
	resource string
	labels   func(context.Context) (map[string]string, error) // nil without an API server
}

func newSourceOptions(names ...string) sourceOptions {
	return sourceOptions{names: names, sysfs: "/sys", socket: podresources.DefaultSocket, resource: "nvidia.com/gpu"}
}

func (o *sourceOptions) addFlags(flags *pflag.FlagSet) {
	var known []string
	for _, source := range sources {
		known = append(known, source.name+" ("+source.what+")")
	}
	flags.StringSliceVar(&o.names, "sources", o.names, "Where to look. There are "+strings.Join(known, ", ")+".")
	flags.StringVar(&o.library, "nvml-library", o.library, "The driver's library. Empty means libnvidia-ml.so.1, where the loader finds it.")
	flags.StringVar(&o.sysfs, "sysfs", o.sysfs, "Where sysfs is mounted.")
	flags.StringVar(&o.file, "file", o.file, "File with NodeTopologies, for the source file.")
	flags.StringVar(&o.socket, "pod-resources-socket", o.socket, "The kubelet's socket.")
	flags.StringVar(&o.resource, "resource", o.resource, "The extended resource that counts GPUs.")
}

// open makes the sources that were asked for, in the order of the list.
func (o *sourceOptions) open() (polls []agent.Poll, err error) {
	unknown := slices.Clone(o.names)
	for _, source := range sources {
		if !slices.Contains(o.names, source.name) {
			continue
		}
		unknown = slices.DeleteFunc(unknown, func(name string) bool { return name == source.name })
		opened, err := source.open(o)
		if err != nil {
			return nil, err
		}
		polls = append(polls, agent.Poll{Source: opened, Every: source.every})
	}
	if len(unknown) > 0 || len(polls) == 0 {
		var names []string
		for _, source := range sources {
			names = append(names, source.name)
		}
		return nil, fmt.Errorf("--sources=%s: they can be %s", strings.Join(o.names, ","), strings.Join(names, ", "))
	}
	return polls, nil
}
