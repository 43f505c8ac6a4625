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
	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
	"github.com/tutti-project/tutti/pkg/discovery/file"
)

const (
	// writesAtOnce is how many nodes are written at the same time.
	writesAtOnce = 16
	// publishEvery is well within the heartbeat that readers count on.
	publishEvery = maxHeartbeat * 4 / 5
	// failedEvery is the pause before those are tried again that failed.
	failedEvery = time.Minute
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
	set.StringVar(&o.kubeconfig, "kubeconfig", o.kubeconfig, "File with the API server's address and credentials. Default: that of kubectl, or the pod's service account.")
	return prepare(&cobra.Command{
		Use:   "publish -f FILE",
		Short: "Write the NodeTopologies of many nodes as a file describes them",
		Long: `publish writes NodeTopologies from a file: for simulated nodes, for tests, and for machines that are described by
hand. The nodes must exist. All GPUs are free that the file's status neither gives to a pod (given) nor calls unhealthy,
unless it lists those that are (free).`,
		Example: "  tutti-agent publish -f topologies.yaml",
	}, flags, o.run)
}

func (o *publishOptions) run(ctx context.Context) error {
	if o.path == "" {
		return errors.New("which file? Set -f")
	}
	p := &publisher{path: o.path}
	if err := p.read(); err != nil {
		return err
	}
	config, err := connectAsUser(o.kubeconfig)
	if err != nil {
		return err
	}
	config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(o.qps, 2*writesAtOnce)
	if p.clients, err = clientsFor(config); err != nil {
		return err
	}
	err = p.publish(ctx, p.topologies)
	if !o.keep {
		return err
	}
	p.goOn(ctx, err)
	return nil
}

// publisher writes what a file says of nodes.
type publisher struct {
	path    string
	clients agent.Clients

	content    []byte // as last read
	topologies []v1alpha1.NodeTopology
	failed     []v1alpha1.NodeTopology // of these, to be tried again
}

// read tells what is wrong with the file, if so, and then leaves what was read before.
func (p *publisher) read() error {
	content, err := os.ReadFile(p.path)
	if err != nil {
		return err
	}
	p.content = content
	topologies, err := file.Parse(p.path, content)
	if err != nil {
		return err
	}
	if len(topologies) == 0 {
		return fmt.Errorf("%s has no NodeTopology", p.path)
	}
	p.topologies = topologies
	return nil
}

// changed tells whether the file is another than was read. One that cannot be read is none.
func (p *publisher) changed() bool {
	content, err := os.ReadFile(p.path)
	return err == nil && !bytes.Equal(content, p.content)
}

// publish writes some of the topologies, and says which failed.
func (p *publisher) publish(ctx context.Context, topologies []v1alpha1.NodeTopology) error {
	errs := make([]error, len(topologies))
	var group errgroup.Group
	group.SetLimit(writesAtOnce)
	for i := range topologies {
		group.Go(func() error {
			errs[i] = agent.Publish(ctx, p.clients, &topologies[i], time.Now)
			return nil
		})
	}
	_ = group.Wait() // errors are in errs
	p.failed = nil
	for i, err := range errs {
		if err != nil {
			p.failed = append(p.failed, topologies[i])
		}
	}
	klog.FromContext(ctx).Info("Published", "file", p.path, "nodes", len(topologies)-len(p.failed), "failed", len(p.failed))
	return errors.Join(errs...)
}

// goOn publishes again when the file has changed and when a heartbeat is due, and those that failed
// somewhat later. While the file is wrong, what it said before stands.
func (p *publisher) goOn(ctx context.Context, err error) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	due, again := time.Now().Add(publishEvery), time.Now().Add(failedEvery)
	for {
		if err != nil {
			klog.FromContext(ctx).Error(err, "Publishing; it is tried again", "file", p.path)
			err = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		changed := p.changed()
		if changed {
			if err = p.read(); err != nil {
				continue
			}
		}
		switch now := time.Now(); {
		case changed || !now.Before(due):
			err = p.publish(ctx, p.topologies)
			due = now.Add(publishEvery)
		case len(p.failed) > 0 && !now.Before(again):
			err = p.publish(ctx, p.failed)
		default:
			continue
		}
		again = time.Now().Add(failedEvery)
	}
}
