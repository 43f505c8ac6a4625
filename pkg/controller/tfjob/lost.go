// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// A pod that is to go is taken away by its kubelet. If the node does not answer, nobody does that, and the pod's name stays in use: the
// job waits. A node that does not answer may still run the pod, so a second one beside it is the administrator's decision
// (Options.ForceDeleteLost); without it, the job is told once.
const (
	// overdue is how long beyond its grace period a pod may take to go before somebody is told.
	overdue = 5 * time.Minute
	// lostRetry is how often the node of an overdue pod is looked at.
	lostRetry = 30 * time.Second
)

// findOverdue adds to a plan the pods that should be gone and are not.
func findOverdue(p *plan, v *view, options Options, now time.Time) {
	patience := overdue
	if options.ForceDeleteLost > 0 {
		patience = options.ForceDeleteLost
	}
	for _, pod := range sorted(v.pods) {
		if pod.DeletionTimestamp == nil || !onNode(pod) && len(pod.Finalizers) == 0 || v.open[deletion(kindPod, pod.UID)] ||
			v.told[overdueNote(pod)] && !mayForce(v, pod, options) {
			continue
		}
		due := pod.DeletionTimestamp.Add(patience)
		if due.After(now) {
			p.lookAgain(due, now)
			continue
		}
		p.overdue = append(p.overdue, pod)
		p.lookAgain(now.Add(lostRetry), now)
	}
}

// onNode tells whether a pod that is to go waits for its kubelet. Nothing but a finalizer keeps others.
func onNode(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" && !hasEnded(pod) }

// mayForce: only what may be run again may be run twice.
func mayForce(v *view, pod *corev1.Pod, options Options) bool {
	if options.ForceDeleteLost <= 0 || !onNode(pod) {
		return false
	}
	for i := range v.roles {
		if v.roles[i].name == pod.Labels[kubeflowv1.ReplicaTypeLabel] {
			return v.roles[i].spec.RestartPolicy != kubeflowv1.RestartPolicyNever
		}
	}
	return false
}

// chase asks after the node of a pod that does not go, and takes the pod away if the node is lost and that is allowed.
func (c *Controller) chase(ctx context.Context, v *view, pods client[*corev1.Pod], pod *corev1.Pod) error {
	if !onNode(pod) {
		if c.ledger.tell(v.job.UID, overdueNote(pod)) {
			c.send(v.stored, podHeld(pod))
		}
		return nil
	}
	node, err := c.clients.Kube.CoreV1().Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading node %s of pod %s/%s: %w", pod.Spec.NodeName, pod.Namespace, pod.Name, err)
	}
	isLost := err != nil || !isReady(node)
	if !isLost || !mayForce(v, pod, c.options) {
		if c.ledger.tell(v.job.UID, overdueNote(pod)) {
			c.send(v.stored, podStays(pod, isLost))
		}
		return nil
	}
	return remove(ctx, c, v, forcing{pods}, kindPod, pod)
}

func isReady(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func overdueNote(pod *corev1.Pod) string { return "overdue " + string(pod.UID) }

// forcing is a client whose deletions wait for no kubelet.
type forcing struct{ client[*corev1.Pod] }

func (f forcing) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	options.GracePeriodSeconds = new(int64)
	return f.client.Delete(ctx, name, options)
}
