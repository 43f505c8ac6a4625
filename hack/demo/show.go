// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/test/controlplane"
)

// patience is how long anything shown may take.
const patience = 60 * time.Second

//go:embed jobs.yaml
var jobs []byte

// show plays the demo's acts; an error says what was not as it should be.
func show(ctx context.Context, out *screen, plane *controlplane.ControlPlane) error {
	if err := plane.Eventually(ctx, patience, func(ctx context.Context) error { // else no pod is admitted
		_, err := plane.Client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	}); err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	defer stop() // before the control plane goes
	if err := narrate(watching, out, plane); err != nil {
		return err
	}
	for _, act := range []func(context.Context, *screen, *controlplane.ControlPlane) error{
		showSamples, showTable, showTFConfig, showTooBig,
	} {
		if err := act(ctx, out, plane); err != nil {
			return err
		}
	}
	return nil
}

// showSamples applies each sample and waits until its gang runs.
func showSamples(ctx context.Context, out *screen, plane *controlplane.ControlPlane) error {
	files, err := filepath.Glob("manifests/samples/*.yaml")
	if err != nil {
		return err
	}
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		out.heading("kubectl apply -f %s", file)
		objects, err := controlplane.ObjectsFromFile(file)
		if err != nil {
			return err
		}
		for _, object := range objects {
			if err := applyAndAwait(ctx, plane, object); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	return nil
}

// applyAndAwait waits, for a TFJob, until its whole gang is bound.
func applyAndAwait(ctx context.Context, plane *controlplane.ControlPlane, object *unstructured.Unstructured) error {
	if err := plane.Apply(ctx, namespace, object); err != nil {
		return err
	}
	if object.GetKind() != "TFJob" {
		return nil
	}
	err := plane.Eventually(ctx, patience, func(ctx context.Context) error {
		return placed(ctx, plane, object.GetName())
	})
	if err != nil || object.GetAnnotations()[tutti.RequiredTopologyAnnotation] != "rack" {
		return err
	}
	racks, err := plane.Racks(ctx, namespace, object.GetName())
	if err == nil && len(racks) != 1 {
		err = fmt.Errorf("%s is required in one rack and is in %v", object.GetName(), racks)
	}
	return err
}

// placed is nil when the gang is bound whole and the scheduler says so.
func placed(ctx context.Context, plane *controlplane.ControlPlane, gang string) error {
	group, err := plane.Dynamic.Resource(controlplane.PodGroups).Namespace(namespace).Get(ctx, gang, metav1.GetOptions{})
	if err != nil {
		return err
	}
	size, _, _ := unstructured.NestedInt64(group.Object, "spec", "minMember")
	if err := plane.Bound(ctx, namespace, gang, int(size)); err != nil {
		return err
	}
	verdict, err := controlplane.VerdictOf(group)
	if err == nil && verdict.Status != metav1.ConditionTrue {
		err = fmt.Errorf("the verdict on %s is %s: %s", gang, verdict.Reason, verdict.Message)
	}
	return err
}

func showTable(ctx context.Context, out *screen, plane *controlplane.ControlPlane) error {
	out.heading("Pods by rack and node")
	table, err := rackTable(ctx, plane)
	if err != nil {
		return err
	}
	out.line("%s", table)
	return nil
}

// showTFConfig prints what one pod of the first sample with several was told.
func showTFConfig(ctx context.Context, out *screen, plane *controlplane.ControlPlane) error {
	pods, err := plane.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{
		LabelSelector: "training.kubeflow.org/replica-type=worker,training.kubeflow.org/replica-index=0",
	})
	if err != nil {
		return err
	}
	for _, pod := range pods.Items {
		config := controlplane.TFConfig(&pod)
		if config == "" { // a job of one pod has none
			continue
		}
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, []byte(config), "  ", "  "); err != nil {
			return fmt.Errorf("TF_CONFIG of pod %s: %w", pod.Name, err)
		}
		out.heading("TF_CONFIG of pod %s", pod.Name)
		out.line("  %s", pretty.String())
		return nil
	}
	return fmt.Errorf("none of %d first workers has a TF_CONFIG", len(pods.Items))
}

// showTooBig fills half of the cluster, asks for more than the rest, and makes
// room.
func showTooBig(ctx context.Context, out *screen, plane *controlplane.ControlPlane) error {
	objects, err := controlplane.Objects(jobs)
	if err != nil {
		return err
	}
	occupant, tooBig := objects[0], objects[1]
	const size = 40 // of too-big, see jobs.yaml

	out.heading("A gang too big for the room that is left: not one pod is bound")
	if err := applyAndAwait(ctx, plane, occupant); err != nil {
		return err
	}
	if err := plane.Apply(ctx, namespace, tooBig); err != nil {
		return err
	}
	err = plane.Eventually(ctx, patience, func(ctx context.Context) error {
		if err := plane.Unbound(ctx, namespace, tooBig.GetName(), size); err != nil {
			return err
		}
		verdict, err := plane.Verdict(ctx, namespace, tooBig.GetName())
		if err == nil && verdict.Status != metav1.ConditionFalse {
			err = fmt.Errorf("the verdict is %s: %s", verdict.Reason, verdict.Message)
		}
		return err
	})
	if err != nil {
		return err
	}
	out.waiting("pods", fmt.Sprintf("0 of %d are bound", size))

	out.heading("kubectl delete tfjob %s: room is made, the gang starts", occupant.GetName())
	if err := plane.Delete(ctx, namespace, occupant); err != nil {
		return err
	}
	return plane.Eventually(ctx, patience, func(ctx context.Context) error {
		return placed(ctx, plane, tooBig.GetName())
	})
}
