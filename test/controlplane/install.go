// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const installLimit = 30 * time.Second

// notInstalled are the kinds of manifests/base that this control plane does
// itself: the programs run outside the cluster, from bin/.
var notInstalled = map[string]bool{"Deployment": true}

// Install applies manifests/base with the components that were asked for as a
// user would, its Deployments excepted, and returns when the API server serves the new kinds. Start calls it; called
// again, it puts back what was changed.
func (c *ControlPlane) Install(ctx context.Context) error {
	folder, err := c.variant()
	if err != nil {
		return err
	}
	objects, err := c.kustomize(ctx, folder)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if notInstalled[object.GetKind()] {
			continue
		}
		if err := c.applyWhenServed(ctx, object); err != nil {
			return fmt.Errorf("installing: %w", err)
		}
	}
	return nil
}

// variant is a folder with a kustomization of the base and the components, as a
// user would write it. Kustomize wants the way there to be a relative one.
func (c *ControlPlane) variant() (string, error) {
	manifests, err := filepath.Rel(filepath.Join(c.dir, "variant"), filepath.Join(c.root, "manifests"))
	if err != nil {
		return "", err
	}
	var kustomization strings.Builder
	fmt.Fprintf(&kustomization, "resources:\n- %s\n", filepath.Join(manifests, "base"))
	for i, component := range c.installed {
		if i == 0 {
			kustomization.WriteString("components:\n")
		}
		fmt.Fprintf(&kustomization, "- %s\n", filepath.Join(manifests, component))
	}
	folder := filepath.Join(c.dir, "variant")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	return folder, os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(kustomization.String()), 0o600)
}

// kustomize renders a folder.
func (c *ControlPlane) kustomize(ctx context.Context, folder string) ([]*unstructured.Unstructured, error) {
	command := exec.CommandContext(ctx, filepath.Join(c.root, "bin", "kubectl"), "kustomize", folder)
	command.Env = append(command.Environ(), "HOME="+c.dir)
	manifest, err := command.Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			err = fmt.Errorf("%w: %s", err, failed.Stderr)
		}
		return nil, fmt.Errorf("rendering %s: %w", folder, err)
	}
	return Objects(manifest)
}

// applyWhenServed applies an object and, when it defines a kind, waits until
// that kind can be listed.
func (c *ControlPlane) applyWhenServed(ctx context.Context, object *unstructured.Unstructured) error {
	if err := c.Apply(ctx, "", object); err != nil {
		return err
	}
	if object.GetKind() != "CustomResourceDefinition" {
		return nil
	}
	return c.Eventually(ctx, installLimit, func(ctx context.Context) error {
		resource, err := c.resource(object, "")
		if err != nil {
			return err
		}
		stored, err := resource.Get(ctx, object.GetName(), getOptions)
		if err != nil {
			return err
		}
		if !hasCondition(stored, "Established", "True") {
			return fmt.Errorf("%s is not established", object.GetName())
		}
		return nil
	})
}

// hasCondition tells whether status.conditions has this type with this status.
func hasCondition(object *unstructured.Unstructured, kind, status string) bool {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, condition := range conditions {
		if fields, ok := condition.(map[string]any); ok && fields["type"] == kind {
			return fields["status"] == status
		}
	}
	return false
}
