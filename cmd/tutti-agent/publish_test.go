// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/tutti-project/tutti/pkg/agent"
	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
	topologyfake "github.com/tutti-project/tutti/pkg/generated/clientset/versioned/fake"
)

// audience is an API server with nodes, for which a file is published.
type audience struct {
	t          *testing.T
	kube       *fake.Clientset
	topologies *topologyfake.Clientset
	path       string
}

// play publishes a file of the nodes n1, n2 and n3, of which the last does not exist yet, while the
// script goes on. Its hours take no time.
func play(t *testing.T, script func(w *audience)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &audience{t, fake.NewSimpleClientset(), topologyfake.NewSimpleClientset(), filepath.Join(t.TempDir(), "topologies.yaml")}
		w.addNode("n1")
		w.addNode("n2")
		w.write(1)
		p := &publisher{path: w.path, clients: agent.Clients{Kube: w.kube, Topology: w.topologies}}
		if err := p.read(); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { p.goOn(ctx, p.publish(ctx, p.topologies)); close(done) }()
		script(w)
		stop()
		<-done
	})
}

func (w *audience) addNode(name string) {
	w.t.Helper()
	if err := w.kube.Tracker().Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		w.t.Fatal(err)
	}
}

// write describes the nodes with so many GPUs each; with none the file is wrong.
func (w *audience) write(gpus int) {
	w.t.Helper()
	var text strings.Builder
	for n := range 3 {
		fmt.Fprintf(&text, "---\napiVersion: topology.tutti.dev/v1alpha1\nkind: NodeTopology\nmetadata: {name: n%d}\nspec:\n  gpus:\n", n+1)
		for i := range gpus {
			fmt.Fprintf(&text, "  - {index: %d, uuid: GPU-%d}\n", i, i)
		}
		if gpus == 0 {
			text.WriteString("  - {\n")
		}
	}
	if err := os.WriteFile(w.path, []byte(text.String()), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *audience) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// state is how many GPUs a node is said to have, and whether a reader would still believe it.
func (w *audience) state(node string) string {
	object, err := w.topologies.Tracker().Get(v1alpha1.SchemeGroupVersion.WithResource("nodetopologies"), "", node)
	if err != nil {
		return "none"
	}
	topology := object.(*v1alpha1.NodeTopology)
	if time.Since(topology.Status.HeartbeatTime.Time) > maxHeartbeat {
		return "stale"
	}
	return fmt.Sprint(len(topology.Spec.GPUs))
}

func (w *audience) want(states string) {
	w.t.Helper()
	if got := w.state("n1") + " " + w.state("n2") + " " + w.state("n3"); got != states {
		w.t.Errorf("nodes have %s, want %s", got, states)
	}
}

// TestOneNodeThatFailsHasNotAllWrittenAgain, and it is written when it is there.
func TestOneNodeThatFailsHasNotAllWrittenAgain(t *testing.T) {
	play(t, func(w *audience) {
		w.after(time.Minute)
		w.want("1 1 none")
		w.topologies.ClearActions()
		w.kube.ClearActions()
		w.after(time.Hour)
		w.want("1 1 none")
		if n := len(w.topologies.Actions()); n > 2*2*16 { // a look and a heartbeat of each of two
			t.Errorf("%d requests for two nodes in an hour", n)
		}
		if n := len(w.kube.Actions()); n > 2*16+2*60 {
			t.Errorf("%d looks for nodes in an hour", n)
		}
		w.addNode("n3")
		w.after(failedEvery + 2*lookEvery)
		w.want("1 1 1")
	})
}

// TestAFileThatIsWrongForAWhileLeavesWhatItSaid.
func TestAFileThatIsWrongForAWhileLeavesWhatItSaid(t *testing.T) {
	play(t, func(w *audience) {
		w.addNode("n3")
		w.after(2 * time.Minute)
		w.write(0)
		w.after(time.Hour)
		w.want("1 1 1")
		if err := os.Remove(w.path); err != nil {
			t.Fatal(err)
		}
		w.after(time.Hour)
		w.want("1 1 1")
		w.write(2)
		w.after(2 * lookEvery)
		w.want("2 2 2")
	})
}

// TestPublishSaysWhatIsWrong, with the file before all else.
func TestPublishSaysWhatIsWrong(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	good := described(t, "l40s-4", nil)
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("kind: [\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"publish"}, "which file? Set -f"},
		{[]string{"publish", "-f", "/nowhere"}, "open /nowhere: no such file or directory"},
		{[]string{"publish", "-f", bad}, "bad.yaml, lines 1 to 1: yaml: line 1"},
		{[]string{"publish", "-f", good}, "there is no kubeconfig: set --kubeconfig or KUBECONFIG"},
		{[]string{"publish", "-f", good, "--kubeconfig=/nowhere"}, "/nowhere"},
		{[]string{"run", "--node-name=n1"}, "this is no pod, whose service account would do: set --kubeconfig"},
	} {
		if err := logsapi.ResetForTest(nil); err != nil {
			t.Fatal(err)
		}
		command := newCommand()
		command.SetArgs(tc.args)
		command.SetOut(&bytes.Buffer{})
		if err := command.Execute(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v: %v, want %q", tc.args, err, tc.want)
		}
	}
}
