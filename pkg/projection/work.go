// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"context"
	"sync"

	"k8s.io/client-go/util/workqueue"
)

// work lets some workers take from the queue, each until next says that there is
// no more, and shuts the queue down when ctx ends. It returns when all have ended.
func work[T comparable](ctx context.Context, queue workqueue.TypedRateLimitingInterface[T], workers int, next func(context.Context) bool) {
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for next(ctx) {
			}
		})
	}
	<-ctx.Done()
	queue.ShutDown()
	group.Wait()
}
