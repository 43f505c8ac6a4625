// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/pkg/engine"
	"github.com/tutti-project/tutti/pkg/snapshot"
)

// environment is what all commands share.
type environment struct {
	out, err io.Writer
	now      func() time.Time

	rules     *clientcmd.ClientConfigLoadingRules
	overrides clientcmd.ConfigOverrides
	from      string // a snapshot's file instead of a cluster
	config    string // the scheduler's configuration file
	assumed   string // why the built-in configuration is taken for the scheduler's, if it is
	output    string
}

func newCommand(e *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kubectl-tutti",
		Short: "Why a job waits, what would happen to one, what there is room for.",
		Long: `kubectl tutti asks Tutti's scheduler, without disturbing it: what it says is
decided by the scheduler's own code, run here on a snapshot of the cluster.
Nothing in the cluster is changed.`,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl tutti"},
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	teach(cmd)
	e.rules = clientcmd.NewDefaultClientConfigLoadingRules()
	flags := cmd.PersistentFlags()
	flags.StringVar(&e.rules.ExplicitPath, "kubeconfig", "", "path of the kubeconfig file")
	clientcmd.BindOverrideFlags(&e.overrides, flags, clientcmd.RecommendedConfigOverrideFlags(""))
	for _, rare := range []string{"as", "as-uid", "as-group", "as-user-extra", "certificate-authority", "client-certificate", "client-key", "cluster", "disable-compression",
		"insecure-skip-tls-verify", "password", "proxy-url", "server", "tls-server-name", "token", "user", "username"} {
		if flags.Lookup(rare) != nil {
			_ = flags.MarkHidden(rare)
		}
	}
	flags.StringVar(&e.from, "from", "", "ask about the cluster in this file, which kubectl tutti snapshot wrote, instead of a live one")
	flags.StringVar(&e.config, "scheduler-config", "", "the scheduler's configuration file (default: that of the deployment in namespace "+tutti.Namespace+", else the built-in one)")
	cmd.AddCommand(newWhy(e), newPlan(e), newTop(e), newUI(e), newSnapshot(e), newReplay(e))
	return cmd
}

// addOutput gives a command -o.
func (e *environment) addOutput(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&e.output, "output", "o", "", "json or yaml; the default is for people")
}

func (e *environment) clientConfig() clientcmd.ClientConfig {
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(e.rules, &e.overrides)
}

// namespace is that of the flags or of the current context.
func (e *environment) namespace() (string, error) {
	if e.from != "" {
		if e.overrides.Context.Namespace != "" {
			return e.overrides.Context.Namespace, nil
		}
		return metav1.NamespaceDefault, nil
	}
	namespace, _, err := e.clientConfig().Namespace()
	return namespace, err
}

func (e *environment) restConfig() (*rest.Config, error) {
	config, err := e.clientConfig().ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS, config.Burst = 50, 100
	return config, nil
}

// cluster reads the cluster or the file.
func (e *environment) cluster(ctx context.Context) (*snapshot.Snapshot, error) {
	if e.from != "" {
		file, err := os.Open(e.from)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }()
		s, err := snapshot.Read(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.from, err)
		}
		return s, nil
	}
	config, err := e.restConfig()
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	asked, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	s, err := snapshot.Take(ctx, client, snapshot.Served(asked), e.now(), e.progress())
	if err != nil {
		return nil, err
	}
	if len(s.Unread) > 0 {
		fmt.Fprintf(e.err, "note: not read, since the cluster has none or you may not list them: %s\n", strings.Join(s.Unread, ", "))
	}
	return s, e.doubt(s)
}

// doubt says that the built-in configuration is taken where it shows that it is not this cluster's: nodes carry none of its levels.
func (e *environment) doubt(s *snapshot.Snapshot) error {
	if e.assumed == "" {
		return nil
	}
	config, err := engine.DefaultConfiguration()
	if err != nil {
		return err
	}
	tree, err := e.tree(s, config)
	if err != nil {
		return err
	}
	for level := 1; level < len(tree.Levels())-1; level++ {
		if _, carried := tree.NodeLabels(level); carried {
			return nil
		}
	}
	fmt.Fprintf(e.err, "note: %s, and no node carries a level of the built-in one, which is taken; give --scheduler-config if yours names others\n", e.assumed)
	return nil
}

// patience is how long reading may take before it shows what it does.
const patience = 2 * time.Second

func (e *environment) progress() func(kind string) {
	start := e.now()
	return func(kind string) {
		if e.now().Sub(start) > patience {
			fmt.Fprintf(e.err, "reading %s …\n", kind)
		}
	}
}

// schedulerConfig is the scheduler's configuration, by flag, from the cluster,
// or the built-in one.
func (e *environment) schedulerConfig(ctx context.Context) (*schedulerconfig.KubeSchedulerConfiguration, error) {
	if err := engine.SetGates(); err != nil {
		return nil, err
	}
	switch {
	case e.config != "":
		config, err := options.LoadConfigFromFile(klog.FromContext(ctx), e.config)
		if err != nil {
			return nil, fmt.Errorf("--scheduler-config: %w", err)
		}
		return config, nil
	case e.from != "":
		return engine.DefaultConfiguration()
	}
	text, err := e.deployedConfig(ctx)
	if apierrors.IsNotFound(err) { // it runs elsewhere, by all appearances without a configuration file
		e.assumed = fmt.Sprintf("there is no scheduler's configuration in namespace %s (%v)", tutti.Namespace, err)
		return engine.DefaultConfiguration()
	}
	if err != nil {
		fmt.Fprintf(e.err, "note: the scheduler's configuration in namespace %s cannot be read (%v); taking the built-in one, so give --scheduler-config if yours names other levels\n", tutti.Namespace, err)
		return engine.DefaultConfiguration()
	}
	file, err := os.CreateTemp("", "tutti-scheduler-*.yaml")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	_, err = file.WriteString(text)
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return nil, err
	}
	config, err := options.LoadConfigFromFile(klog.FromContext(ctx), file.Name())
	if err != nil {
		return nil, fmt.Errorf("the scheduler's configuration in namespace %s: %w", tutti.Namespace, err)
	}
	return config, nil
}

// deployedConfig follows the scheduler's deployment to its ConfigMap.
func (e *environment) deployedConfig(ctx context.Context) (string, error) {
	config, err := e.restConfig()
	if err != nil {
		return "", err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	deployment, err := client.AppsV1().Deployments(tutti.Namespace).Get(ctx, tutti.SchedulerName, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	for _, volume := range deployment.Spec.Template.Spec.Volumes {
		if volume.ConfigMap == nil {
			continue
		}
		configMap, err := client.CoreV1().ConfigMaps(tutti.Namespace).Get(ctx, volume.ConfigMap.Name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		if text, ok := configMap.Data["config.yaml"]; ok {
			return text, nil
		}
	}
	return "", fmt.Errorf("its deployment mounts no config.yaml")
}
