// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package agreement compares what kubectl tutti plan says with what the scheduler
// then does, on one random state of a cluster after another: tutti-scheduler runs
// as a program on a real API server, and pkg/whatif answers in this process from a
// snapshot of it. Where a gang goes, pod by pod, who is evicted for it, and why it
// is refused, word by word, must be the same.
package agreement

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"
	podgroups "sigs.k8s.io/scheduler-plugins/pkg/generated/clientset/versioned"

	"github.com/tutti-project/tutti/pkg/engine"
	tutti "github.com/tutti-project/tutti/pkg/generated/clientset/versioned"
	"github.com/tutti-project/tutti/test/controlplane"
)

var (
	states = flag.Int("states", 16, "how many states of clusters")
	planes = flag.Int("planes", 1, "how many clusters at a time")
	seed   = flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the states")
)

// The clusters: two spines of two racks.
var layout = controlplane.Machines{Spines: 2, RacksPerSpine: 2, NodesPerRack: 4, GPUsPerNode: 8}

// The classes of priority; a gang without one has priority 0.
const (
	high   = "high"
	polite = "polite" // high, and evicts nobody
)

// mostFailures is after how many disagreements a cluster is given up.
const mostFailures = 3

func TestMain(m *testing.M) {
	flag.Parse()
	klog.SetLogger(logr.Discard()) // of the scheduler in this process
	if err := engine.SetGates(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestPlanAndSchedulerAgree(t *testing.T) {
	t.Logf("-states=%d -planes=%d -seed=%d", *states, *planes, *seed)
	var next atomic.Int64
	sum := &tally{}
	began := time.Now()
	t.Run("clusters", func(t *testing.T) {
		for n := range *planes {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, rand.New(rand.NewPCG(*seed, uint64(n))))
				for failures := 0; failures < mostFailures && next.Add(1) <= int64(*states); {
					w.change()
					if err := w.decide(sum); err != nil {
						failures++
						t.Errorf("state %d of this cluster: %v", w.state, err)
					}
				}
				must(t, w.plane.Failure())
			})
		}
	})
	t.Logf("%s in %s", sum, time.Since(began).Round(time.Second))
}

// tally counts what was agreed on.
type tally struct {
	placed, partly, refused, preempting, demanding, lost, later atomic.Int64
}

func (s *tally) String() string {
	return fmt.Sprintf("agreed on %d states: %d gangs placed whole, %d without some extras, %d refused, %d placed by evictions, "+
		"%d with wishes of topology or links, %d for a lost member; %d of these only when planned again later, for what hangs on the time",
		s.placed.Load()+s.partly.Load()+s.refused.Load(), s.placed.Load(), s.partly.Load(), s.refused.Load(), s.preempting.Load(), s.demanding.Load(), s.lost.Load(), s.later.Load())
}

// world is one cluster, and what is in it.
type world struct {
	t         *testing.T
	plane     *controlplane.ControlPlane
	dynamic   dynamic.Interface
	groups    podgroups.Interface
	tutti     tutti.Interface
	random    *rand.Rand
	namespace string
	state     int
	// gangs have pods on nodes.
	gangs   []string
	members map[string]gang
	// singles hold room, by the hand of the test.
	singles []string
	dir     string
}

func newWorld(t *testing.T, random *rand.Rand) *world {
	t.Helper()
	ctx := t.Context()
	plane, err := controlplane.Start(ctx, controlplane.Options{Dir: t.TempDir()})
	must(t, err)
	t.Cleanup(plane.Stop)
	w := &world{t: t, plane: plane, random: random, namespace: "agreement", members: map[string]gang{}}
	w.dir, err = os.MkdirTemp("", "tutti-agreement-") //nolint:usetesting // what disagreed is to be looked at after the test
	must(t, err)
	t.Cleanup(func() {
		if !t.Failed() {
			_ = os.RemoveAll(w.dir)
		}
	})
	w.dynamic, err = dynamic.NewForConfig(plane.Config)
	must(t, err)
	w.groups, err = podgroups.NewForConfig(plane.Config)
	must(t, err)
	w.tutti, err = tutti.NewForConfig(plane.Config)
	must(t, err)
	must(t, plane.InstallAgent(ctx))
	must(t, plane.CreateNodes(ctx, layout))
	for _, class := range []*schedulingv1.PriorityClass{
		{ObjectMeta: metav1.ObjectMeta{Name: high}, Value: 1000},
		{ObjectMeta: metav1.ObjectMeta{Name: polite}, Value: 1000, PreemptionPolicy: new(corev1.PreemptNever)},
	} {
		_, err := plane.Client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{})
		must(t, err)
	}
	_, err = plane.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}, metav1.CreateOptions{})
	must(t, err)
	w.eventually("the namespace has its service account", func(ctx context.Context) error {
		_, err := plane.Client.CoreV1().ServiceAccounts(w.namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	w.describeMachines()
	_, err = plane.StartScheduler("--leader-elect=false")
	must(t, err)
	return w
}

// patience is how long something may take that is sure to come.
const patience = 30 * time.Second

func (w *world) eventually(what string, check func(context.Context) error) {
	w.t.Helper()
	if err := w.plane.Eventually(w.t.Context(), patience, check); err != nil {
		w.t.Fatalf("state %d: %s: %v", w.state, what, err)
	}
}

// keep writes what is to be looked at after a failure.
func (w *world) keep(name string, write func(*os.File) error) string {
	path := filepath.Join(w.dir, strings.ReplaceAll(name, "/", "-"))
	file, err := os.Create(path)
	must(w.t, err)
	must(w.t, write(file))
	must(w.t, file.Close())
	return path
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
