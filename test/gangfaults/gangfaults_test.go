// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package gangfaults lets the scheduler work under conditions that no cluster
// should have: any of its requests may be refused or lose its answer, watches
// break off, and the program is killed every few seconds, while gangs of two
// priorities come and go, pods are deleted, and nodes are cordoned or vanish.
//
// A run is one such history in a namespace of its own, on six nodes of its own. An
// observer sees every change of its pods; when the history is over, whatever fits
// has to run within a limit, and nothing that was seen may break the rules:
//
//   - no gang is bound in part at rest, unless it lost pods for which there is no
//     room any more
//   - no host holds more than it has
//   - nobody is evicted for a gang that does not start
//   - no pod is lost, doubled or moved
//   - every gang that fits runs
package gangfaults

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-project/tutti/test/controlplane"
	"github.com/tutti-project/tutti/test/faultproxy"
)

var (
	runs   = flag.Int("runs", 12, "how many histories")
	worlds = flag.Int("worlds", 4, "how many of them at a time")
	rate   = flag.Float64("rate", 0.1, "which part of the scheduler's requests meets a fault")
	seed   = flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the histories, the faults and the times to kill")
)

const (
	racks        = 2
	nodesPerRack = 3
	gpusPerNode  = 4
	important    = "important" // the higher one of two priority classes
	// The scheduler lives this long, from its first look at the pods, before it is killed.
	shortestLife = 1 * time.Second
	longestLife  = 8 * time.Second
	// limit is how long after the end of a history a gang that fits may wait.
	limit = 3 * time.Minute
)

func TestGangsUnderFaults(t *testing.T) {
	ctx := t.Context()
	plane, err := controlplane.Start(ctx, controlplane.Options{Dir: t.TempDir()})
	must(t, err)
	t.Cleanup(plane.Stop)
	must(t, plane.CreateNodes(ctx, controlplane.Machines{Spines: *worlds, RacksPerSpine: racks, NodesPerRack: nodesPerRack, GPUsPerNode: gpusPerNode}))
	_, err = plane.Client.SchedulingV1().PriorityClasses().Create(ctx, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: important}, Value: 1000}, metav1.CreateOptions{})
	must(t, err)
	_, err = plane.StartController("--leader-elect=false", "--kube-api-qps=1000", "--kube-api-burst=2000")
	must(t, err)
	t.Logf("-runs=%d -worlds=%d -rate=%g -seed=%d", *runs, *worlds, *rate, *seed)

	h := &hazard{plane: plane}
	must(t, h.start(t))
	killed := make(chan int)
	dying, stop := context.WithCancel(ctx)
	go func() { killed <- h.killAgainAndAgain(dying) }()
	defer stop()

	began := time.Now()
	var next, bad atomic.Int64
	counts := &counts{}
	done := make(chan struct{})
	for world := range *worlds {
		go func() {
			defer func() { done <- struct{}{} }()
			for {
				i := int(next.Add(1)) - 1
				if i >= *runs || bad.Load() > 3 {
					return
				}
				r := newRun(plane, world, i, *seed+uint64(i))
				if err := r.live(ctx, counts); err != nil {
					bad.Add(1)
					t.Errorf("run %d (world %d, seed %d, quiet cluster %t): %v\n%s", i, world, r.seed, r.quiet, err, r.story())
					_ = r.clear(ctx) // for the next one; whether that works it will see
				}
			}
		}()
	}
	for range *worlds {
		<-done
	}
	stop()
	t.Logf("%d runs in %s: %s; %d requests met a fault, the scheduler was killed %d times",
		min(*runs, int(next.Load())), time.Since(began).Round(time.Second), counts, h.proxy.Faults(), <-killed)
	must(t, plane.Failure())
	for _, words := range h.crashed {
		t.Errorf("a scheduler ended by itself:\n%s", words)
	}
	if t.Failed() {
		for _, p := range plane.Processes() {
			if p.Name == "tutti-scheduler" {
				t.Logf("the end of %s:\n%s", p.Log(), p.Tail())
				break // they share one log
			}
		}
	}
}

// hazard is what happens to the scheduler.
type hazard struct {
	plane      *controlplane.ControlPlane
	proxy      *faultproxy.Proxy
	kubeconfig string
	// looked receives when the scheduler begins to watch pods.
	looked chan struct{}
	// crashed are the last words of those that ended by themselves.
	crashed []string
}

func (h *hazard) start(t *testing.T) error {
	file, err := h.plane.Identity("system:serviceaccount:"+controlplane.Namespace+":tutti-scheduler",
		"system:serviceaccounts", "system:serviceaccounts:"+controlplane.Namespace)
	if err != nil {
		return err
	}
	config, err := faultproxy.ConfigFromFile(file)
	if err != nil {
		return err
	}
	h.looked = make(chan struct{}, 1)
	random := faultproxy.Random(rand.New(rand.NewPCG(*seed, 1)), *rate)
	h.proxy, err = faultproxy.New(config, func(r *http.Request) faultproxy.Fault {
		// The engine's own informer, which starts when all else is ready.
		if strings.HasSuffix(r.URL.Path, "/api/v1/pods") && faultproxy.IsWatch(r) && strings.Contains(r.URL.Query().Get("fieldSelector"), "!=") {
			select {
			case h.looked <- struct{}{}:
			default:
			}
		}
		return random(r)
	})
	if err != nil {
		return err
	}
	t.Cleanup(h.proxy.Close)
	h.kubeconfig = filepath.Join(t.TempDir(), "proxy.kubeconfig")
	return h.proxy.Kubeconfig(h.kubeconfig)
}

// killAgainAndAgain starts the scheduler, kills it, and starts the next, until
// ctx is done. Without a lease: a killed leader's would keep the next waiting.
func (h *hazard) killAgainAndAgain(ctx context.Context) (killed int) {
	rng := rand.New(rand.NewPCG(*seed, 2))
	for ; ctx.Err() == nil; killed++ {
		select {
		case <-h.looked: // of the one before
		default:
		}
		scheduler, err := h.plane.StartScheduler("--kubeconfig="+h.kubeconfig, "--leader-elect=false")
		if err != nil {
			return killed // no gang will run, which is what fails the test
		}
		select {
		case <-ctx.Done():
		case <-scheduler.Done(): // a refused request at its start ends it
			scheduler.Kill() // so that its end is no failure
			continue
		case <-h.looked:
		}
		select {
		case <-ctx.Done():
		case <-scheduler.Done():
			h.crashed = append(h.crashed, scheduler.Tail())
		case <-time.After(shortestLife + time.Duration(rng.Int64N(int64(longestLife-shortestLife)))):
		}
		scheduler.Kill()
	}
	return killed
}

// counts is what happened in all runs.
type counts struct{ gangs, evictions, deletions, cordons, nodes, edits, torn atomic.Int64 }

func (c *counts) String() string {
	return fmt.Sprintf("%d gangs, %d pods evicted, %d deleted, %d nodes cordoned, %d deleted, %d gangs edited, %d ended torn for want of room",
		c.gangs.Load(), c.evictions.Load(), c.deletions.Load(), c.cordons.Load(), c.nodes.Load(), c.edits.Load(), c.torn.Load())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
