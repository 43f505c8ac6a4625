// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// report writes the status if it changed, and then tells the events of the change. The API server refuses the write if the job has
// changed since the cache saw it.
func (c *Controller) report(ctx context.Context, v *view, p *plan) (written bool, err error) {
	if equality.Semantic.DeepEqual(v.stored.Status, p.status) {
		return false, nil
	}
	job := v.stored.DeepCopy()
	job.Status = p.status
	now, err := c.clients.TFJobs.KubeflowV1().TFJobs(job.Namespace).UpdateStatus(ctx, job, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return false, errOutOfDate
	}
	if err != nil {
		return false, fmt.Errorf("writing the status of TFJob %s/%s: %w", job.Namespace, job.Name, err)
	}
	if now.Status.State != p.status.State {
		c.pruned.Do(func() {
			klog.FromContext(ctx).Error(nil, "The API server drops fields of a TFJob's status, so restarts are not remembered: "+
				"its CustomResourceDefinition is another program's; install that of manifests/crds", "crd", kubeflowv1.TFJobPlural+"."+kubeflowv1.GroupName)
		})
	}
	for _, e := range p.events {
		c.send(v.stored, e)
	}
	return true, nil
}

func (c *Controller) send(job *kubeflowv1.TFJob, e event) {
	c.recorder.Event(job, e.kind, e.reason, e.message)
}
