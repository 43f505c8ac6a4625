// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
)

const readyLimit = 90 * time.Second

// Options of a control plane.
type Options struct {
	// Dir receives every file; it is made when missing. The caller removes it.
	Dir string
	// Root is the module's root, which holds bin/ and manifests/. Default: the
	// nearest folder upwards with a go.mod.
	Root string
	// APIServerArgs are added to the API server's command line; none by
	// default, which is the stock server.
	APIServerArgs []string
	// ControllerManagerArgs are the same for the controller manager.
	ControllerManagerArgs []string
	// Components are folders of manifests/ that are installed with the base.
	Components []string
}

// ControlPlane is a running control plane.
type ControlPlane struct {
	// Kubeconfig is the administrator's file, Config the same as values.
	Kubeconfig string
	Config     *rest.Config
	Client     kubernetes.Interface
	Dynamic    dynamic.Interface

	dir, root string
	installed []string // components
	url       string
	authority *authority
	mapper    meta.ResettableRESTMapper

	mu        sync.Mutex
	processes []*Process // in the order of their start
}

// Start brings up etcd, the API server with Tutti's CRDs and RBAC, the
// controller manager and KWOK, and returns when the API server is ready.
// Whatever had started is ended when it fails.
func Start(ctx context.Context, o Options) (*ControlPlane, error) {
	c := &ControlPlane{root: o.Root, installed: o.Components}
	var err error
	if c.dir, err = filepath.Abs(o.Dir); err != nil {
		return nil, err
	}
	if c.root == "" {
		if c.root, err = moduleRoot(); err != nil {
			return nil, err
		}
	}
	if err := c.start(ctx, o); err != nil {
		c.Stop()
		return nil, fmt.Errorf("starting the control plane: %w", err)
	}
	return c, nil
}

func (c *ControlPlane) start(ctx context.Context, o Options) error {
	var err error
	if c.authority, err = newAuthority(filepath.Join(c.dir, "pki")); err != nil {
		return err
	}
	if err := c.authority.serve(); err != nil {
		return err
	}
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	etcd := fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	peer := fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	c.url = fmt.Sprintf("https://127.0.0.1:%d", ports[2])
	if c.Kubeconfig, err = c.Identity("admin", "system:masters"); err != nil {
		return err
	}
	if err := c.connect(); err != nil {
		return err
	}
	if _, err := c.run("etcd", c.etcdArgs(etcd, peer)...); err != nil {
		return err
	}
	if _, err := c.run("kube-apiserver", append(c.apiserverArgs(etcd, ports[2]), o.APIServerArgs...)...); err != nil {
		return err
	}
	if err := c.ready(ctx); err != nil {
		return err
	}
	// Before the controller manager: its garbage collector looks for new kinds
	// only every 30 seconds, and would not notice deleted jobs until then.
	if err := c.Install(ctx); err != nil {
		return err
	}
	if _, err := c.run("kube-controller-manager", append(c.controllerManagerArgs(), o.ControllerManagerArgs...)...); err != nil {
		return err
	}
	return c.startKwok()
}

func (c *ControlPlane) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = -1, -1 // a test's own requests are not throttled
	c.Config = config
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	c.Client = client
	c.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
	c.Dynamic, err = dynamic.NewForConfig(config)
	return err
}

// ready waits for the API server and for the namespace "default", which it
// makes itself soon after.
func (c *ControlPlane) ready(ctx context.Context) error {
	return c.Eventually(ctx, readyLimit, func(ctx context.Context) error {
		if _, err := c.Client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err != nil {
			return err
		}
		_, err := c.Client.CoreV1().Namespaces().Get(ctx, "default", getOptions)
		return err
	})
}

// Identity writes a kubeconfig file for a user, its groups as given, and
// returns the file's path.
func (c *ControlPlane) Identity(user string, groups ...string) (string, error) {
	path := filepath.Join(c.dir, fileName(user)+".kubeconfig")
	return path, c.authority.kubeconfig(path, c.url, user, groups)
}

// Stop ends every program, the last started first. Files stay.
func (c *ControlPlane) Stop() {
	c.mu.Lock()
	running := slices.Clone(c.processes)
	c.mu.Unlock()
	for _, p := range slices.Backward(running) {
		p.Stop()
	}
}

// Failure is not nil when a program has ended that nobody told to end.
func (c *ControlPlane) Failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var failures []error
	for _, p := range c.processes {
		failures = append(failures, p.Failure())
	}
	return errors.Join(failures...)
}

// Processes are the programs started so far, ended ones included.
func (c *ControlPlane) Processes() []*Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.processes)
}

// Use takes what is started from now on from another checkout, in which it has
// been built.
func (c *ControlPlane) Use(root string) { c.root = root }

// run starts a program of bin/ under its own name; of the API server that which
// the environment names, if it does.
func (c *ControlPlane) run(program string, args ...string) (*Process, error) {
	path := filepath.Join(c.root, "bin", program)
	if other := os.Getenv("TUTTI_TEST_APISERVER"); other != "" && program == "kube-apiserver" {
		path = filepath.Join(c.root, other)
	}
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("%w (make tools build makes it)", err)
	}
	p, err := spawn(c.dir, program, path, args...)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.processes = append(c.processes, p)
	return p, nil
}
