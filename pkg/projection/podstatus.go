// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/workqueue"
)

// patchTries bounds how often one status is sent; the next decision makes
// another.
const patchTries = 5

// PodStatusWriter sends the conditions of pods that were refused. The engine
// patches them one by one on the scheduling thread, where a gang of 1,000 that
// does not fit would hold up all others for seconds. Of one pod only the newest
// is sent, and none after its binding.
type PodStatusWriter struct {
	client kubernetes.Interface
	queue  workqueue.TypedRateLimitingInterface[types.NamespacedName]

	mu      sync.Mutex
	pending map[types.NamespacedName]patch
	// sending has a channel for every pod whose patch is under way, closed when
	// it is done.
	sending map[types.NamespacedName]chan struct{}
}

type patch struct {
	kind types.PatchType
	data []byte
}

// NewPodStatusWriter makes one; it sends while Run runs.
func NewPodStatusWriter(client kubernetes.Interface) *PodStatusWriter {
	return &PodStatusWriter{
		client: client,
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](100*time.Millisecond, 10*time.Second)),
		pending: map[types.NamespacedName]patch{},
		sending: map[types.NamespacedName]chan struct{}{},
	}
}

// Run sends with some workers until ctx ends.
func (w *PodStatusWriter) Run(ctx context.Context, workers int) {
	work(ctx, w.queue, workers, w.next)
}

func (w *PodStatusWriter) next(ctx context.Context) bool {
	key, shutdown := w.queue.Get()
	if shutdown {
		return false
	}
	defer w.queue.Done(key)
	if err := w.send(ctx, key); err != nil {
		utilruntime.HandleErrorWithContext(ctx, err, "Failed to tell a pod why it is not scheduled")
		if w.queue.NumRequeues(key) < patchTries {
			w.queue.AddRateLimited(key)
			return true
		}
		w.drop(key)
	}
	w.queue.Forget(key)
	return true
}

func (w *PodStatusWriter) send(ctx context.Context, key types.NamespacedName) error {
	w.mu.Lock()
	p, ok := w.pending[key]
	if !ok {
		w.mu.Unlock()
		return nil
	}
	delete(w.pending, key)
	done := make(chan struct{})
	w.sending[key] = done
	w.mu.Unlock()

	_, err := w.client.CoreV1().Pods(key.Namespace).Patch(ctx, key.Name, p.kind, p.data, metav1.PatchOptions{}, "status")
	w.mu.Lock()
	defer w.mu.Unlock()
	close(done)
	delete(w.sending, key)
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	if _, newer := w.pending[key]; !newer {
		w.pending[key] = p
	}
	return fmt.Errorf("writing the status of pod %s: %w", key, err)
}

func (w *PodStatusWriter) put(key types.NamespacedName, p patch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending[key] = p
	w.queue.Add(key)
}

func (w *PodStatusWriter) drop(key types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pending, key)
}

// settle drops what waits to be sent of a pod, and waits for what is under way.
func (w *PodStatusWriter) settle(ctx context.Context, key types.NamespacedName) {
	w.mu.Lock()
	delete(w.pending, key)
	done := w.sending[key]
	w.mu.Unlock()
	if done == nil {
		return
	}
	select {
	case <-done:
		w.drop(key) // it may have failed, and waits once more
	case <-ctx.Done():
	}
}

// refusalClient hands the PodStatusWriter what it is to send, and knows what came of
// a binding (binding.go).
type refusalClient struct {
	typedcorev1.PodInterface
	namespace string
	writer    *PodStatusWriter
}

// Patch implements typedcorev1.PodInterface.
func (c *refusalClient) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (*v1.Pod, error) {
	if len(subresources) != 1 || subresources[0] != "status" || !tellsRefusal(data) {
		return c.PodInterface.Patch(ctx, name, kind, data, opts, subresources...)
	}
	c.writer.put(types.NamespacedName{Namespace: c.namespace, Name: name}, patch{kind, data})
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name}}, nil
}

// tellsRefusal tells whether a status patch changes the condition PodScheduled
// and no other.
func tellsRefusal(data []byte) bool {
	var p struct {
		Status struct {
			Conditions []struct {
				Type v1.PodConditionType `json:"type"`
			} `json:"conditions"`
		} `json:"status"`
	}
	return json.Unmarshal(data, &p) == nil && len(p.Status.Conditions) == 1 && p.Status.Conditions[0].Type == v1.PodScheduled
}
