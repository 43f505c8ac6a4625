// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/tutti-project/tutti/pkg/agent"
	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
	"github.com/tutti-project/tutti/pkg/clusterview/machines"
	"github.com/tutti-project/tutti/pkg/discovery"
	topology "github.com/tutti-project/tutti/pkg/generated/clientset/versioned"
	"github.com/tutti-project/tutti/test/controlplane"
)

const (
	gpus = 8
	// startLimit is how long it may take until all agents have written for the first time.
	startLimit = 5 * time.Minute
	hosts      = "pkg/topology/testdata/hosts/dgx-1v"
)

type stage struct {
	options
	plane    *controlplane.ControlPlane
	kubelets []*kubelet
	group    sync.WaitGroup
}

// driver always sees the same.
type driver struct{ facts discovery.Facts }

func (d driver) Name() string                                      { return "driver" }
func (d driver) Discover(context.Context) (discovery.Facts, error) { return d.facts, nil }

// kubelet is one node's: a pod comes, and with the next change goes.
type kubelet struct {
	node string

	mu  sync.Mutex
	pod int // odd while one is there
}

func (k *kubelet) Name() string { return "kubelet" }

func (k *kubelet) Discover(context.Context) (discovery.Facts, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	devices := &discovery.Devices{}
	for i := range gpus {
		devices.Allocatable = append(devices.Allocatable, machines.UUID(k.node, i))
	}
	if k.pod%2 == 1 {
		devices.Given = []discovery.Given{{Namespace: "n", Pod: fmt.Sprintf("pod-%d", k.pod), IDs: devices.Allocatable[:2]}}
	}
	return discovery.Facts{Devices: devices}, nil
}

func (k *kubelet) change() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pod++
}

// start makes the nodes and their agents, and returns when all have written.
func (b *stage) start(ctx context.Context) error {
	fmt.Printf("starting %d agents\n", b.agents)
	if err := b.plane.InstallAgent(ctx); err != nil {
		return err
	}
	size := controlplane.Machines{Spines: 1, RacksPerSpine: 1, NodesPerRack: b.agents + 1, GPUsPerNode: gpus}
	if err := b.plane.CreateNodes(ctx, size); err != nil {
		return err
	}
	config := rest.CopyConfig(b.plane.Config)
	clients := agent.Clients{}
	var err error
	if clients.Kube, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if clients.Topology, err = topology.NewForConfig(config); err != nil {
		return err
	}
	for i := range b.agents {
		name := size.Node(i).Name
		object, err := machines.Read(hosts, name)
		if err != nil {
			return err
		}
		k := &kubelet{node: name}
		b.kubelets = append(b.kubelets, k)
		a := agent.New(clients, agent.Options{
			Node: name,
			Polls: []agent.Poll{
				{Source: driver{discovery.Facts{Hardware: &object.Spec}}, Every: 30 * time.Second},
				{Source: k, Every: 5 * time.Second},
			},
			Heartbeat: 5 * time.Minute, Now: time.Now, Random: rand.Float64,
		})
		b.group.Go(func() { a.Run(ctx) })
	}
	return b.plane.Eventually(ctx, startLimit, b.failed)
}

// failed is nil while all agents say that all is well.
func (b *stage) failed(ctx context.Context) error {
	client, err := topology.NewForConfig(b.plane.Config)
	if err != nil {
		return err
	}
	list, err := client.TopologyV1alpha1().NodeTopologies().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	well := 0
	for _, object := range list.Items {
		if len(object.Status.Conditions) == 1 && object.Status.Conditions[0].Status == metav1.ConditionTrue {
			well++
		}
	}
	if well < b.agents {
		return fmt.Errorf("%d of %d agents say that all is well", well, b.agents)
	}
	return nil
}

// startOne runs the program on the last node, and returns when it has been at
// rest for a minute.
func (b *stage) startOne(ctx context.Context) (*controlplane.Process, error) {
	name := fmt.Sprintf("n%03d", b.agents+1)
	object, err := machines.Read(hosts, name)
	if err != nil {
		return nil, err
	}
	object.APIVersion, object.Kind = v1alpha1.SchemeGroupVersion.String(), "NodeTopology"
	object.Status = v1alpha1.NodeTopologyStatus{}
	text, err := yaml.Marshal(object)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(b.dir, "topologies.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return nil, err
	}
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(filepath.Dir(path), "kubelet.sock")
	if err := serveKubelet(ctx, socket, name); err != nil {
		return nil, err
	}
	one, err := b.plane.StartAgent(ctx, name, "--sources=file,podresources,labels", "--file="+path,
		"--pod-resources-socket="+socket, "--metrics-bind-address=127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return one, wait(ctx, time.Minute)
}

// change lets a pod come or go on every node once a minute, at times of its own,
// and returns how often that was.
func (b *stage) change(ctx context.Context, during time.Duration) (int, error) {
	ctx, stop := context.WithTimeout(ctx, during)
	defer stop()
	minutes := int(during / time.Minute)
	for range minutes {
		round := time.NewTicker(time.Minute / time.Duration(b.agents))
		for _, k := range b.kubelets {
			k.change()
			<-round.C
		}
		round.Stop()
	}
	<-ctx.Done()
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return 0, ctx.Err()
	}
	return minutes * b.agents, nil
}

// requests are those that the API server has counted for NodeTopologies and
// nodes, all writers together: nobody else writes these but KWOK, whose nodes do
// not change.
type requests struct{ reads, writes float64 }

func (b *stage) requests(ctx context.Context) requests {
	counts, err := b.plane.Requests(ctx, "nodetopologies")
	var sum requests
	if err != nil {
		return sum // the goals then fail
	}
	for verb, n := range counts {
		switch verb {
		case "GET", "LIST", "WATCH":
			sum.reads += n
		default:
			sum.writes += n
		}
	}
	return sum
}

// since is per minute.
func (r requests) since(before requests, passed time.Duration) requests {
	return requests{(r.reads - before.reads) / passed.Minutes(), (r.writes - before.writes) / passed.Minutes()}
}

func (r requests) String() string {
	return fmt.Sprintf("%.0f writes and %.0f reads a minute", r.writes, r.reads)
}

type usage struct {
	processor time.Duration
	memory    float64 // MiB
}

// usageOf reads what the kernel has counted for a process.
func usageOf(pid int) (u usage) {
	const ticks = 100 // a second, on every Linux
	if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
		_, rest, _ := strings.Cut(string(stat), ") ")
		if fields := strings.Fields(rest); len(fields) > 12 {
			user, _ := strconv.Atoi(fields[11])
			system, _ := strconv.Atoi(fields[12])
			u.processor = time.Duration(user+system) * time.Second / ticks
		}
	}
	if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)); err == nil {
		for line := range strings.Lines(string(status)) {
			if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
				kilobytes, _ := strconv.ParseFloat(strings.Fields(value)[0], 64)
				u.memory = kilobytes / 1024
			}
		}
	}
	return u
}
