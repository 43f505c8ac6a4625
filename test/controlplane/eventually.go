// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"time"
)

const pollInterval = 50 * time.Millisecond

// Eventually calls check again and again until it returns nil. When the limit
// is over it returns check's last error; when a program has died meanwhile, or
// ctx has ended, it returns that at once.
func (c *ControlPlane) Eventually(ctx context.Context, limit time.Duration, check func(context.Context) error) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	over := time.NewTimer(limit)
	defer over.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if dead := c.Failure(); dead != nil {
			return dead
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; at that time: %w", context.Cause(ctx), err)
		case <-over.C:
			return fmt.Errorf("after %s: %w", limit, err)
		case <-tick.C:
		}
	}
}
