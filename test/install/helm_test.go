// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-project/tutti/test/controlplane"
)

const release = "--namespace=" + controlplane.Namespace

// TestHelmInstallsUpgradesAndLeaves does with the program helm what
// docs/install.md says of it: what the API server then holds is what it holds
// after kustomize, and running jobs notice nothing.
func TestHelmInstallsUpgradesAndLeaves(t *testing.T) {
	c := newCluster(t)
	c.kubectl("apply", "--server-side", "--force-conflicts", "-k", "manifests/base")
	want := c.stored(c.output("kustomize", "manifests/base"))
	c.kubectl("delete", "-k", "manifests/base")

	if said := c.helm("lint", "--strict", "charts/tutti"); !strings.Contains(said, "0 chart(s) failed") {
		t.Errorf("helm lint says %s", said)
	}
	c.helm("install", "tutti", "charts/tutti", release, "--create-namespace", "--set=image.registry=registry.example/tutti", "--set=image.tag=v1")
	c.kubectl("label", "namespace", controlplane.Namespace, "pod-security.kubernetes.io/enforce=restricted")
	// The namespace is not the release's, and so not in its manifest.
	namespace := []byte("\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: " + controlplane.Namespace + "}\n")
	if diff := cmp.Diff(want, c.stored(append([]byte(c.helm("get", "manifest", "tutti", release)), namespace...))); diff != "" {
		t.Errorf("what is stored (-kustomize +helm):\n%s", diff)
	}

	c.startPrograms()
	c.kubectl("apply", "--server-side", "-f", "manifests/samples/ps-worker.yaml")
	c.bound("ps-worker", 6)
	before := c.gang("ps-worker")

	c.helm("upgrade", "tutti", "charts/tutti", release, "--reuse-values",
		"--set=scheduler.replicas=3", "--set=controller.extraEnv[0].name=CUSTOM_CLUSTER_DOMAIN", "--set=controller.extraEnv[0].value=cluster.local")
	scheduler, err := c.Client.AppsV1().Deployments(controlplane.Namespace).Get(t.Context(), "tutti-scheduler", metav1.GetOptions{})
	must(t, err)
	controller, err := c.Client.AppsV1().Deployments(controlplane.Namespace).Get(t.Context(), "tutti-controller", metav1.GetOptions{})
	must(t, err)
	container := controller.Spec.Template.Spec.Containers[0]
	if *scheduler.Spec.Replicas != 3 || !slices.Contains(container.Env, corev1.EnvVar{Name: "CUSTOM_CLUSTER_DOMAIN", Value: "cluster.local"}) ||
		container.Image != "registry.example/tutti/tutti-controller:v1" {
		t.Errorf("after the upgrade: %d replicas, image %s, variables %v", *scheduler.Spec.Replicas, container.Image, container.Env)
	}
	c.unchanged("the upgrade", before)

	c.stopPrograms()
	c.helm("uninstall", "tutti", release)
	c.nothingLeft()
	c.kubectl("get", "tfjob/ps-worker", "podgroup/ps-worker")
	c.unchanged("the removal", before)

	c.helm("install", "tutti", "charts/tutti", release)
	c.startPrograms()
	c.kubectl("apply", "--server-side", "-f", "manifests/samples/chief.yaml")
	c.bound("chief", 4)
	c.unchanged("the second installation", before)

	// From kustomize to Helm.
	c.helm("uninstall", "tutti", release)
	c.kubectl("apply", "--server-side", "--force-conflicts", "-k", "manifests/base")
	c.helm("install", "tutti", "charts/tutti", release, "--take-ownership", "--force-conflicts")
	c.unchanged("the change from kustomize to Helm", before)
}

// helm runs it in the module's root and returns what it prints.
func (c *cluster) helm(args ...string) string {
	c.t.Helper()
	command := exec.CommandContext(c.t.Context(), filepath.Join("bin", "helm"), args...)
	command.Dir = filepath.Join("..", "..")
	command.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig, "HOME="+c.t.TempDir())
	output, err := command.CombinedOutput()
	if err != nil {
		c.t.Fatalf("helm %s: %v: %s", strings.Join(args, " "), err, output)
	}
	return string(output)
}

// nothingLeft of Tutti but the definitions.
func (c *cluster) nothingLeft() {
	c.t.Helper()
	for _, kind := range []string{"deployments,services,configmaps,serviceaccounts,roles,rolebindings,poddisruptionbudgets", "clusterroles,clusterrolebindings"} {
		if left := c.output("get", kind, "-A", "-l", "app.kubernetes.io/part-of=tutti", "-o", "name"); len(left) > 0 {
			c.t.Errorf("these are left:\n%s", left)
		}
	}
}

// stored is what the API server holds of the objects of a manifest, by name, without
// what it writes itself and without what may differ between the ways to install.
func (c *cluster) stored(manifest []byte) map[string]map[string]any {
	c.t.Helper()
	path := filepath.Join(c.t.TempDir(), "manifest.yaml")
	must(c.t, os.WriteFile(path, manifest, 0o600))
	list, err := controlplane.Objects(alike.ReplaceAll(c.output("get", "-f", path, "-o", "yaml"), []byte("$1")))
	must(c.t, err)
	items, err := list[0].ToList()
	must(c.t, err)
	found := map[string]map[string]any{}
	for i := range items.Items {
		o := &items.Items[i]
		found[strings.Join([]string{o.GroupVersionKind().String(), o.GetNamespace(), o.GetName()}, " ")] = bare(o)
	}
	return found
}
