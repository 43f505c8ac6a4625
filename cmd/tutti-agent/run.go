// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"

	"github.com/tutti-project/tutti/pkg/agent"
	"github.com/tutti-project/tutti/pkg/discovery/nvml"
	topology "github.com/tutti-project/tutti/pkg/generated/clientset/versioned"
	"github.com/tutti-project/tutti/pkg/program"
)

// nodeVariable names the node to an agent in a pod.
const nodeVariable = "NODE_NAME"

// requestLimit is how long the API server may take to answer.
const requestLimit = 30 * time.Second

// maxHeartbeat is what readers of a NodeTopology count on.
const maxHeartbeat = 5 * time.Minute

type runOptions struct {
	sources    sourceOptions
	kubeconfig string
	heartbeat  time.Duration
	serving    program.Serving
}

func newRunCommand() *cobra.Command {
	o := &runOptions{
		sources:   newSourceOptions("nvml", "podresources", "labels"),
		heartbeat: maxHeartbeat,
		serving:   program.DefaultServing(),
	}
	o.sources.node = os.Getenv(nodeVariable)
	var flags cliflag.NamedFlagSets
	o.sources.addFlags(flags.FlagSet("sources"))
	publishing := flags.FlagSet("publishing")
	publishing.StringVar(&o.sources.node, "node-name", o.sources.node, "The name of this node. Default: the environment variable "+nodeVariable+".")
	publishing.DurationVar(&o.heartbeat, "heartbeat", o.heartbeat, "The longest time between two writes of the node's NodeTopology, at most 5m.")
	publishing.StringVar(&o.kubeconfig, "kubeconfig", o.kubeconfig, kubeconfigHelp)
	o.serving.AddFlags(flags.FlagSet("serving"))
	return prepare(&cobra.Command{
		Use:   "run",
		Short: "Keep this node's NodeTopology true, for ever",
		Long: `run looks at the node and writes what it sees to the NodeTopology of the node's name: when something has
changed, and as a heartbeat. What cannot be seen is said there, in the condition Ready; the agent goes on. So it does
while the API server is away.`,
	}, flags, func(ctx context.Context) error {
		if err := o.validate(); err != nil {
			return err
		}
		return o.run(ctx)
	})
}

const kubeconfigHelp = "File with the API server's address and credentials. Empty means that of the pod's service account."

func (o *runOptions) validate() error {
	var errs []error
	if o.sources.node == "" {
		errs = append(errs, errors.New("which node is this? Set --node-name or "+nodeVariable))
	}
	if o.heartbeat < time.Second || o.heartbeat > maxHeartbeat {
		errs = append(errs, fmt.Errorf("--heartbeat is %v; it must be from 1s to %v, as the scheduler takes a node that was silent for longer for unknown", o.heartbeat, maxHeartbeat))
	}
	return errors.Join(append(errs, o.serving.Validate())...)
}

func (o *runOptions) run(ctx context.Context) error {
	config, err := connect(o.kubeconfig)
	if err != nil {
		return err
	}
	clients, err := clientsFor(config)
	if err != nil {
		return err
	}
	o.sources.labels = func(ctx context.Context) (map[string]string, error) {
		// From the API server's cache: it need not be the latest.
		node, err := clients.Kube.CoreV1().Nodes().Get(ctx, o.sources.node, metav1.GetOptions{ResourceVersion: "0"})
		if err != nil {
			return nil, err
		}
		return node.Labels, nil
	}
	polls, err := o.sources.open()
	if err != nil {
		return err
	}
	a := agent.New(clients, agent.Options{
		Node: o.sources.node, Polls: polls, Heartbeat: o.heartbeat, Now: time.Now, Random: rand.Float64,
	})
	if err := o.serving.ServeProbes(ctx, func(*http.Request) error { return a.Healthy() }, a.Ready); err != nil {
		return err
	}
	if err := o.serving.ServeMetrics(ctx, config, "tutti-agent"); err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Looking at the node", "node", o.sources.node, "sources", o.sources.names, "canAskDriver", nvml.CanAsk)
	a.Run(ctx)
	return nil
}

// connect finds the API server from a file or else a pod's service account; nothing is asked of it yet.
func connect(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			err = errors.New("this is no pod, whose service account would do: set --kubeconfig")
		}
		return named(config, err)
	}
	return named(clientcmd.BuildConfigFromFlags("", kubeconfig))
}

// connectAsUser finds it where kubectl would, unless a file is named.
func connectAsUser(kubeconfig string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		err = errors.New("there is no kubeconfig: set --kubeconfig or KUBECONFIG")
	}
	return named(config, err)
}

func named(config *rest.Config, err error) (*rest.Config, error) {
	if err != nil {
		return nil, fmt.Errorf("finding the API server: %w", err)
	}
	return rest.AddUserAgent(config, "tutti-agent"), nil
}

func clientsFor(config *rest.Config) (clients agent.Clients, err error) {
	config = rest.CopyConfig(config)
	config.Timeout = requestLimit
	if clients.Kube, err = kubernetes.NewForConfig(config); err != nil {
		return clients, fmt.Errorf("making a client: %w", err)
	}
	if clients.Topology, err = topology.NewForConfig(config); err != nil {
		return clients, fmt.Errorf("making a client for NodeTopologies: %w", err)
	}
	return clients, nil
}
