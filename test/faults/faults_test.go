// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package faults lets the controller work for a while under conditions that no
// cluster should have: any request may be refused or lose its answer, watches
// break off, and the program is killed every few seconds. In the end every job
// must be what an undisturbed one of its kind is.
package faults

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-project/tutti/test/controlplane"
	"github.com/tutti-project/tutti/test/faultproxy"
)

var (
	runs = flag.Int("runs", 60, "how many jobs live through faults")
	rate = flag.Float64("rate", 0.1, "which part of the requests meets a fault")
	seed = flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the faults and of the times to kill")
)

const (
	// unfinished bounds how many jobs are under way at once.
	unfinished = 150
	// The controller lives this long before it is killed.
	shortestLife = time.Second
	longestLife  = 5 * time.Second
	// A job that takes so long from the last creation on will never end.
	limit = 3 * time.Minute
	look  = time.Second
)

func TestJobsEndUnderFaultsAsTheyDoWithout(t *testing.T) {
	ctx := t.Context()
	plane, err := controlplane.Start(ctx, controlplane.Options{Dir: t.TempDir()})
	must(t, err)
	t.Cleanup(plane.Stop)
	must(t, plane.CreateNodes(ctx, controlplane.Machines{Spines: 1, RacksPerSpine: 1, NodesPerRack: nodes}))
	want := undisturbed(t, plane)

	t.Logf("-runs=%d -rate=%g -seed=%d", *runs, *rate, *seed)
	proxy, kubeconfig := newProxy(t, plane)
	w := newWorld(t, plane, "faults")
	ended := make(chan int)
	dying, stop := context.WithCancel(ctx)
	go func() { ended <- killAgainAndAgain(dying, plane, kubeconfig) }()
	defer stop()

	began := time.Now()
	lastMade := began
	for made := 0; ; {
		states := w.look(t)
		open := w.open(states, want)
		if made == *runs && len(open) == 0 {
			break
		}
		for ; made < *runs && made-(len(states)-len(open)) < unfinished; made++ {
			w.create(t, made)
			lastMade = time.Now()
		}
		if time.Since(lastMade) > limit {
			w.report(t, states, want, open)
			break
		}
		must(t, plane.Failure())
		time.Sleep(look)
	}
	stop()
	t.Logf("%d jobs in %s, %d requests met a fault, the controller was killed %d times",
		*runs, time.Since(began).Round(time.Second), proxy.Faults(), <-ended)
	for identity, pods := range w.made() {
		if most := want[shapeOf(identity)].Attempts; pods > most {
			t.Errorf("%s had %d pods, want at most %d", identity, pods, most)
			t.Log(strings.Join(w.story(identity), "\n"))
		}
	}
}

// undisturbed is how one job of each shape ends.
func undisturbed(t *testing.T, plane *controlplane.ControlPlane) map[string]end {
	t.Helper()
	controller, err := plane.StartController("--leader-elect=false")
	must(t, err)
	defer controller.Stop()
	w := newWorld(t, plane, "undisturbed")
	for i := range shapes {
		w.create(t, i)
	}
	// An end is an end if it stays.
	var before map[string]end
	err = plane.Eventually(t.Context(), limit, func(context.Context) error {
		now := w.look(t)
		for name, e := range now {
			if !e.isFinal() {
				return fmt.Errorf("%s has not ended: %+v", name, e)
			}
		}
		diff := cmp.Diff(before, now)
		before = now
		time.Sleep(2 * look)
		if diff != "" {
			return fmt.Errorf("not at rest: %s", diff)
		}
		return nil
	})
	must(t, err)
	want := map[string]end{}
	pods := w.made()
	for name, e := range before {
		for identity, n := range pods {
			if shapeOf(identity) == shapeOf(name) {
				e.Attempts = max(e.Attempts, n)
			}
		}
		want[shapeOf(name)] = e
	}
	for i := range shapes {
		t.Logf("%s: %+v", shapes[i].name, want[shapes[i].name])
	}
	return want
}

// newProxy stands between the controller and the API server, under the
// controller's identity.
func newProxy(t *testing.T, plane *controlplane.ControlPlane) (*faultproxy.Proxy, string) {
	t.Helper()
	file, err := plane.Identity("system:serviceaccount:"+controlplane.Namespace+":tutti-controller",
		"system:serviceaccounts", "system:serviceaccounts:"+controlplane.Namespace)
	must(t, err)
	config, err := faultproxy.ConfigFromFile(file)
	must(t, err)
	proxy, err := faultproxy.New(config, faultproxy.Random(rand.New(rand.NewPCG(*seed, 1)), *rate))
	must(t, err)
	t.Cleanup(proxy.Close)
	kubeconfig := filepath.Join(t.TempDir(), "proxy.kubeconfig")
	must(t, proxy.Kubeconfig(kubeconfig))
	return proxy, kubeconfig
}

// killAgainAndAgain starts the controller, kills it, and starts the next, until
// ctx is done. Without a lease: a killed leader's would keep the next waiting.
func killAgainAndAgain(ctx context.Context, plane *controlplane.ControlPlane, kubeconfig string) (killed int) {
	rng := rand.New(rand.NewPCG(*seed, 2))
	for ; ctx.Err() == nil; killed++ {
		controller, err := plane.StartController("--leader-elect=false", "--kubeconfig="+kubeconfig,
			"--controller-threads=16", "--kube-api-qps=2000", "--kube-api-burst=4000", "--v=0")
		if err != nil {
			return killed // the jobs will not end, which is what fails the test
		}
		select {
		case <-ctx.Done():
		case <-controller.Done(): // by itself, which plane.Failure tells
		case <-time.After(shortestLife + time.Duration(rng.Int64N(int64(longestLife-shortestLife)))):
		}
		controller.Kill()
	}
	return killed
}

// report shows some of those that did not end as they should.
func (w *world) report(t *testing.T, states map[string]end, want map[string]end, open []string) {
	t.Helper()
	t.Errorf("%d of %d jobs have not ended as without faults", len(open), len(states))
	for _, name := range open[:min(len(open), 5)] {
		t.Errorf("%s (-want +got):\n%s", name, cmp.Diff(want[shapeOf(name)].comparable(), states[name].comparable()))
		t.Log(strings.Join(w.story(name), "\n"))
	}
}

var everything = metav1.ListOptions{}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
