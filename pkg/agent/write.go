// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
	"github.com/tutti-project/tutti/pkg/apis/tutti"
	topology "github.com/tutti-project/tutti/pkg/generated/clientset/versioned"
)

// Clients are those of the API server.
type Clients struct {
	Kube     kubernetes.Interface
	Topology topology.Interface
}

// writer keeps the objects of one node. It remembers what the API server has, so that it reads
// nothing while nobody else writes.
type writer struct {
	clients Clients
	node    string
	now     func() time.Time

	stored *v1alpha1.NodeTopology // nil for not known
	owner  metav1.OwnerReference  // known with stored, like label
	label  string                 // of the node; empty for none
}

// write makes the API server's objects like the report. With beat it writes the status even if
// nothing has changed. It tells whether it wrote the status.
func (w *writer) write(ctx context.Context, report Report, beat bool) (wrote bool, err error) {
	for range 2 {
		known := w.stored != nil
		if wrote, err = w.attempt(ctx, report, beat); err == nil {
			return wrote, nil
		}
		w.stored = nil
		if !apierrors.IsConflict(err) && (!known || !apierrors.IsNotFound(err)) {
			break
		} // else somebody wrote or deleted it: look again
	}
	return false, err
}

func (w *writer) attempt(ctx context.Context, report Report, beat bool) (bool, error) {
	if w.stored == nil {
		if err := w.read(ctx); err != nil {
			return false, err
		}
	}
	if err := w.writeSpec(ctx, report.Spec); err != nil {
		return false, err
	}
	wrote, err := w.writeStatus(ctx, report, beat)
	if err != nil || report.Spec == nil {
		return wrote, err
	}
	return wrote, w.writeLabel(ctx, domainOf(report.Spec.Fabric))
}

// read gets what is there, or makes the object.
func (w *writer) read(ctx context.Context) error {
	node, err := w.clients.Kube.CoreV1().Nodes().Get(ctx, w.node, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the node %s: %w", w.node, err)
	}
	w.label = node.Labels[tutti.NVLinkDomainLabel]
	w.owner = metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
	objects := w.clients.Topology.TopologyV1alpha1().NodeTopologies()
	stored, err := objects.Get(ctx, w.node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		stored, err = objects.Create(ctx, &v1alpha1.NodeTopology{
			ObjectMeta: metav1.ObjectMeta{Name: w.node, OwnerReferences: []metav1.OwnerReference{w.owner}},
		}, metav1.CreateOptions{})
		_ = countWrite("spec", err)
	}
	if err != nil {
		return fmt.Errorf("reading or making the NodeTopology %s: %w", w.node, err)
	}
	w.stored = stored
	return nil
}

// writeSpec leaves what was known of the hardware while it is not known.
func (w *writer) writeSpec(ctx context.Context, spec *v1alpha1.NodeTopologySpec) error {
	changed := w.stored.DeepCopy()
	changed.OwnerReferences = []metav1.OwnerReference{w.owner}
	if spec != nil {
		changed.Spec = *spec
	}
	if equality.Semantic.DeepEqual(changed, w.stored) {
		return nil
	}
	stored, err := w.clients.Topology.TopologyV1alpha1().NodeTopologies().Update(ctx, changed, metav1.UpdateOptions{})
	if countWrite("spec", err) != nil {
		return fmt.Errorf("writing the spec of NodeTopology %s: %w", w.node, err)
	}
	w.stored = stored
	klog.FromContext(ctx).V(2).Info("Wrote the hardware", "node", w.node, "gpus", len(stored.Spec.GPUs))
	return nil
}

func (w *writer) writeStatus(ctx context.Context, report Report, beat bool) (bool, error) {
	status, changed := report.Status, w.stored.DeepCopy()
	now := metav1.NewTime(w.now())
	changed.Status = *status.DeepCopy()
	changed.Status.ObservedGeneration = w.stored.Generation
	changed.Status.HeartbeatTime = w.stored.Status.HeartbeatTime
	changed.Status.Conditions = w.stored.DeepCopy().Status.Conditions
	for _, condition := range status.Conditions {
		condition.ObservedGeneration, condition.LastTransitionTime = w.stored.Generation, now
		meta.SetStatusCondition(&changed.Status.Conditions, condition)
	}
	if !beat && sameState(changed.Status, w.stored.Status) {
		return false, nil
	}
	changed.Status.HeartbeatTime = &now
	if told := report.AsOf.Add(debounce); !report.AsOf.IsZero() && told.Before(now.Time) {
		// Readers take pods of before the heartbeat for seen, and those of its second for not seen.
		changed.Status.HeartbeatTime = &metav1.Time{Time: told}
	}
	stored, err := w.clients.Topology.TopologyV1alpha1().NodeTopologies().UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	if countWrite("status", err) != nil {
		return false, fmt.Errorf("writing the status of NodeTopology %s: %w", w.node, err)
	}
	w.stored = stored
	w.show(now.Time)
	return true, nil
}

// sameState does not look at the text for people, which may have a time or a port in it.
func sameState(a, b v1alpha1.NodeTopologyStatus) bool {
	a, b = *a.DeepCopy(), *b.DeepCopy()
	for _, conditions := range [][]metav1.Condition{a.Conditions, b.Conditions} {
		for i := range conditions {
			conditions[i].Message = ""
		}
	}
	return equality.Semantic.DeepEqual(a, b)
}

func (w *writer) show(now time.Time) {
	gpuCount.WithLabelValues("all").Set(float64(len(w.stored.Spec.GPUs)))
	gpuCount.WithLabelValues("free").Set(float64(len(w.stored.Status.Free)))
	gpuCount.WithLabelValues("unhealthy").Set(float64(len(w.stored.Status.Unhealthy)))
	lastWrite.Set(float64(now.UnixNano()) / float64(time.Second))
}

// writeLabel touches nothing of the node but the one label, and that only if it differs.
func (w *writer) writeLabel(ctx context.Context, domain string) error {
	if domain == w.label {
		return nil
	}
	_, err := w.clients.Kube.CoreV1().Nodes().Patch(ctx, w.node, types.MergePatchType, labelPatch(domain), metav1.PatchOptions{})
	if countWrite("label", err) != nil {
		return fmt.Errorf("labelling the node %s: %w", w.node, err)
	}
	w.label = domain
	klog.FromContext(ctx).V(2).Info("Labelled the node", "node", w.node, "label", tutti.NVLinkDomainLabel, "value", domain)
	return nil
}
