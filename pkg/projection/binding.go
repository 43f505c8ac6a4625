// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

// askAgain is how often, and at what intervals, the API server is asked what came
// of a binding.
var askAgain = wait.Backoff{Duration: 20 * time.Millisecond, Factor: 3, Jitter: 0.1, Steps: 6}

// Bind implements typedcorev1.PodInterface. A refusal that was sent after it would
// unsay it, so none is. And of a request that fails the answer alone may have been
// lost. The engine would take the pod from its node then, and give that room away
// before its informer has the binding; so the pod itself is asked.
func (c *refusalClient) Bind(ctx context.Context, binding *v1.Binding, opts metav1.CreateOptions) error {
	c.writer.settle(ctx, types.NamespacedName{Namespace: c.namespace, Name: binding.Name})
	err := c.PodInterface.Bind(ctx, binding, opts)
	if err == nil || apierrors.IsNotFound(err) || !c.isBound(ctx, binding) {
		return err
	}
	return nil
}

// isBound tells whether the pod is where the binding puts it. Without an answer it
// is taken for not bound.
func (c *refusalClient) isBound(ctx context.Context, binding *v1.Binding) bool {
	bound := false
	_ = wait.ExponentialBackoffWithContext(ctx, askAgain, func(ctx context.Context) (bool, error) {
		pod, err := c.Get(ctx, binding.Name, metav1.GetOptions{})
		if err != nil {
			return apierrors.IsNotFound(err), nil
		}
		bound = pod.Spec.NodeName == binding.Target.Name && (binding.UID == "" || binding.UID == pod.UID)
		return true, nil
	})
	return bound
}
