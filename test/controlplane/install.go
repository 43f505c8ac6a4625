// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const installLimit = 30 * time.Second

// notInstalled are the kinds of manifests/base that this control plane does
// itself: the programs run outside the cluster, from bin/.
var notInstalled = map[string]bool{"Deployment": true}

// Install applies Tutti's manifests as a user would, its Deployments excepted,
// and returns when the API server serves the new kinds. Start calls it; called
// again, it puts back what was changed.
func (c *ControlPlane) Install(ctx context.Context) error {
	for _, folder := range []string{"manifests/crds", "manifests/base"} {
		objects, err := c.kustomize(ctx, folder)
		if err != nil {
			return err
		}
		for _, object := range objects {
			if notInstalled[object.GetKind()] {
				continue
			}
			if err := c.applyWhenServed(ctx, object); err != nil {
				return fmt.Errorf("installing %s: %w", folder, err)
			}
		}
	}
	return nil
}

// kustomize renders a folder, or reads its files when it has no kustomization.
func (c *ControlPlane) kustomize(ctx context.Context, folder string) ([]*unstructured.Unstructured, error) {
	path := filepath.Join(c.root, folder)
	if kustomizations, _ := filepath.Glob(filepath.Join(path, "kustomization.yaml")); len(kustomizations) == 0 {
		return objectsInFolder(path)
	}
	command := exec.CommandContext(ctx, filepath.Join(c.root, "bin", "kubectl"), "kustomize", path)
	command.Env = append(command.Environ(), "HOME="+c.dir)
	manifest, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("rendering %s: %w", folder, err)
	}
	return Objects(manifest)
}

func objectsInFolder(path string) ([]*unstructured.Unstructured, error) {
	files, err := filepath.Glob(filepath.Join(path, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var all []*unstructured.Unstructured
	for _, file := range files {
		objects, err := ObjectsFromFile(file)
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	return all, nil
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
