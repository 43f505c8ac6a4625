// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/util/flowcontrol"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"

	"github.com/tutti-project/tutti/pkg/agent"
	"github.com/tutti-project/tutti/pkg/discovery/file"
)

const (
	// writesAtOnce is how many nodes are written at the same time.
	writesAtOnce = 16
	// publishEvery is well within the heartbeat that readers count on.
	publishEvery = maxHeartbeat * 4 / 5
	// lookEvery is how soon a change of the file is seen.
	lookEvery = 2 * time.Second
)

type publishOptions struct {
	path       string
	kubeconfig string
	keep       bool
	qps        float32
}

func newPublishCommand() *cobra.Command {
	o := &publishOptions{qps: 100}
	var flags cliflag.NamedFlagSets
	set := flags.FlagSet("publishing")
	set.StringVarP(&o.path, "filename", "f", o.path, "File with NodeTopologies as YAML, as 'inspect -o yaml' prints them.")
	set.BoolVar(&o.keep, "keep", o.keep, "Go on: repeat the heartbeat, and publish the file again when it has changed. "+
		"Without it the scheduler takes the nodes for unknown after 15 minutes.")
	set.Float32Var(&o.qps, "kube-api-qps", o.qps, "Requests to the API server per second.")
	set.StringVar(&o.kubeconfig, "kubeconfig", o.kubeconfig, kubeconfigHelp)
	return prepare(&cobra.Command{
		Use:   "publish -f FILE",
		Short: "Write the NodeTopologies of many nodes as a file describes them",
		Long: `publish writes NodeTopologies from a file: for simulated nodes, for tests, and for machines that are described by
hand. The nodes must exist. All GPUs are free that the file's status neither gives to a pod (given) nor calls unhealthy,
unless it lists those that are (free).`,
		Example: "  tutti-agent publish -f topologies.yaml --kubeconfig ~/.kube/config",
	}, flags, o.run)
}

func (o *publishOptions) run(ctx context.Context) error {
	if o.path == "" {
		return errors.New("which file? Set -f")
	}
	config, err := connect(o.kubeconfig)
	if err != nil {
		return err
	}
	config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(o.qps, 2*writesAtOnce)
	clients, err := clientsFor(config)
	if err != nil {
		return err
	}
	err = o.once(ctx, clients)
	if !o.keep || err != nil {
		return err
	}
	return o.goOn(ctx, clients)
}

// once publishes all, and says which failed.
func (o *publishOptions) once(ctx context.Context, clients agent.Clients) error {
	topologies, err := file.Read(o.path)
	if err != nil {
		return err
	}
	if len(topologies) == 0 {
		return fmt.Errorf("%s has no NodeTopology", o.path)
	}
	errs := make([]error, len(topologies))
	var group errgroup.Group
	group.SetLimit(writesAtOnce)
	for i := range topologies {
		group.Go(func() error {
			errs[i] = agent.Publish(ctx, clients, &topologies[i], time.Now)
			return nil
		})
	}
	_ = group.Wait() // errors are in errs
	klog.FromContext(ctx).Info("Published", "file", o.path, "nodes", len(topologies))
	return errors.Join(errs...)
}

// goOn publishes again when the file has changed and when a heartbeat is due. What fails is tried
// again.
func (o *publishOptions) goOn(ctx context.Context, clients agent.Clients) error {
	published, due := o.content(), time.Now().Add(publishEvery)
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
		content := o.content()
		if bytes.Equal(content, published) && time.Now().Before(due) {
			continue
		}
		if err := o.once(ctx, clients); err != nil {
			klog.FromContext(ctx).Error(err, "Publishing; it is tried again", "file", o.path)
			continue
		}
		published, due = content, time.Now().Add(publishEvery)
	}
}

// content is the file's, or nothing while it cannot be read.
func (o *publishOptions) content() []byte {
	content, err := os.ReadFile(o.path)
	if err != nil {
		return nil
	}
	return content
}
