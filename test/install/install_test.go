// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package install tests what docs/install.md promises: the commands that
// install, upgrade and uninstall, and that running jobs notice none of them.
package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-project/tutti/test/controlplane"
)

const patience = 60 * time.Second

type cluster struct {
	*controlplane.ControlPlane
	t        *testing.T
	programs []*controlplane.Process
}

// newCluster has 16 nodes in two racks, and nothing installed.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Dir: t.TempDir()})
	must(t, err)
	t.Cleanup(plane.Stop)
	must(t, plane.CreateNodes(t.Context(), controlplane.Machines{Spines: 1, RacksPerSpine: 2, NodesPerRack: 8, GPUsPerNode: 8}))
	return &cluster{ControlPlane: plane, t: t}
}

// TestRunningJobsOutliveUpgradeAndRemoval: only pods are simulated. What the
// Deployments would run is started and ended by hand.
func TestRunningJobsOutliveUpgradeAndRemoval(t *testing.T) {
	c := newCluster(t)

	c.kubectl("apply", "--server-side", "--force-conflicts", "-k", "manifests/base")
	c.available("tutti-scheduler", "tutti-controller")
	c.startPrograms()
	c.kubectl("apply", "--server-side", "-f", "manifests/samples/ps-worker.yaml")
	c.bound("ps-worker", 6)
	before := c.gang("ps-worker")

	// Upgrade: from the folder to the one file.
	c.stopPrograms()
	c.kubectl("apply", "--server-side", "--force-conflicts", "-f", c.oneFile())
	c.startPrograms()
	c.kubectl("apply", "--server-side", "-f", "manifests/samples/chief.yaml")
	c.bound("chief", 4)
	c.unchanged("the upgrade", before)

	c.stopPrograms()
	c.kubectl("delete", "-k", "manifests/base", "-l", "app.kubernetes.io/component!=crds")
	_, err := c.Client.CoreV1().Namespaces().Get(t.Context(), controlplane.Namespace, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the namespace %s: got error %v, want that it is not found", controlplane.Namespace, err)
	}
	roles, err := c.Client.RbacV1().ClusterRoles().List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/part-of=tutti"})
	must(t, err)
	if len(roles.Items) > 0 {
		t.Errorf("%d cluster roles are left", len(roles.Items))
	}
	c.kubectl("get", "tfjob/ps-worker", "podgroup/ps-worker")
	c.unchanged("the removal", before)

	c.kubectl("apply", "--server-side", "-k", "manifests/base")
	c.startPrograms()
	c.kubectl("delete", "tfjob", "chief")
	c.kubectl("apply", "--server-side", "-f", "manifests/samples/chief.yaml")
	c.bound("chief", 4)
	c.unchanged("the second installation", before)
}

// TestRunningJobsOutliveAnUpgradeFromThere is make test-upgrade: it has put an
// older commit, built, into that folder.
func TestRunningJobsOutliveAnUpgradeFromThere(t *testing.T) {
	older := os.Getenv("TUTTI_TEST_UPGRADE_FROM")
	if older == "" {
		t.Skip("make test-upgrade runs it with an older commit")
	}
	older, err := filepath.Abs(filepath.Join("..", "..", older))
	must(t, err)
	here, err := filepath.Abs(filepath.Join("..", ".."))
	must(t, err)
	c := newCluster(t)

	// As the older version is installed, and with a job of each kind: one that runs, and one that waits.
	c.kubectl("apply", "--server-side", "--force-conflicts", "-k", filepath.Join(older, "manifests", "base"))
	c.Use(older)
	c.startPrograms()
	c.kubectl("apply", "--server-side", "-f", "manifests/samples/ps-worker.yaml")
	c.bound("ps-worker", 6)
	c.kubectl("cordon", "-l", "!no-such-label")
	c.kubectl("apply", "--server-side", "-f", "manifests/samples/chief.yaml")
	must(t, c.Eventually(t.Context(), patience, func(ctx context.Context) error { return c.Unbound(ctx, "default", "chief", 4) }))
	before, waiting := c.gang("ps-worker"), c.gang("chief")

	c.stopPrograms()
	c.kubectl("apply", "--server-side", "--force-conflicts", "-k", "manifests/base")
	c.Use(here)
	c.startPrograms()
	c.kubectl("apply", "--server-side", "-f", "manifests/samples/evaluator.yaml")
	must(t, c.Eventually(t.Context(), patience, func(ctx context.Context) error { return c.Unbound(ctx, "default", "evaluator", 3) }))
	c.unchanged("the upgrade", before)
	if diff := cmp.Diff(waiting, c.gang("chief")); diff != "" {
		t.Errorf("the upgrade changed a gang that waits (-before +after):\n%s", diff)
	}
	c.kubectl("uncordon", "-l", "!no-such-label")
	c.bound("chief", 4)
	c.unchanged("what came after the upgrade", before)
}

// oneFile is what make install-yaml writes.
func (c *cluster) oneFile() string {
	c.t.Helper()
	data, err := c.command("kustomize", "manifests/base").Output()
	must(c.t, err)
	path := filepath.Join(c.t.TempDir(), "install.yaml")
	must(c.t, os.WriteFile(path, data, 0o600))
	return path
}

func (c *cluster) startPrograms() {
	c.t.Helper()
	scheduler, err := c.StartScheduler()
	must(c.t, err)
	controller, err := c.StartController()
	must(c.t, err)
	c.programs = []*controlplane.Process{scheduler, controller}
}

func (c *cluster) stopPrograms() {
	for _, program := range c.programs {
		program.Stop()
	}
	c.programs = nil
}

// available: each survives the loss of one node and of one replica.
func (c *cluster) available(names ...string) {
	c.t.Helper()
	for _, name := range names {
		deployment, err := c.Client.AppsV1().Deployments(controlplane.Namespace).Get(c.t.Context(), name, metav1.GetOptions{})
		must(c.t, err)
		if *deployment.Spec.Replicas < 2 {
			c.t.Errorf("%s has %d replicas, want 2", name, *deployment.Spec.Replicas)
		}
		budget, err := c.Client.PolicyV1().PodDisruptionBudgets(controlplane.Namespace).Get(c.t.Context(), name, metav1.GetOptions{})
		must(c.t, err)
		if diff := cmp.Diff(deployment.Spec.Selector, budget.Spec.Selector); diff != "" {
			c.t.Errorf("%s: the budget is of other pods (-deployment +budget):\n%s", name, diff)
		}
		terms := deployment.Spec.Template.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution
		if !slices.ContainsFunc(terms, func(term corev1.WeightedPodAffinityTerm) bool {
			return cmp.Equal(term.PodAffinityTerm.LabelSelector, deployment.Spec.Selector)
		}) {
			c.t.Errorf("%s does not keep its replicas apart", name)
		}
	}
}

func (c *cluster) bound(gang string, size int) {
	c.t.Helper()
	must(c.t, c.Eventually(c.t.Context(), patience, func(ctx context.Context) error { return c.Bound(ctx, "default", gang, size) }))
}

// gang is which pods it has, and where.
func (c *cluster) gang(name string) map[string]string {
	c.t.Helper()
	pods, err := c.Pods(c.t.Context(), "default", name)
	must(c.t, err)
	found := map[string]string{}
	for _, pod := range pods {
		found[pod.Name] = fmt.Sprintf("%s on %s, leaves: %t", pod.UID, pod.Spec.NodeName, pod.DeletionTimestamp != nil)
	}
	return found
}

func (c *cluster) unchanged(what string, before map[string]string) {
	c.t.Helper()
	if diff := cmp.Diff(before, c.gang("ps-worker")); diff != "" {
		c.t.Errorf("%s changed a running gang (-before +after):\n%s", what, diff)
	}
}

// kubectl runs it in the module's root, as the documentation does.
func (c *cluster) kubectl(args ...string) {
	c.t.Helper()
	c.output(args...)
}

// output is what it prints.
func (c *cluster) output(args ...string) []byte {
	c.t.Helper()
	output, err := c.command(args...).Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			err = fmt.Errorf("%w: %s", err, failed.Stderr)
		}
		c.t.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
	}
	return output
}

func (c *cluster) command(args ...string) *exec.Cmd {
	command := exec.CommandContext(c.t.Context(), filepath.Join("bin", "kubectl"), args...)
	command.Dir = filepath.Join("..", "..")
	command.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig, "HOME="+c.t.TempDir())
	return command
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
