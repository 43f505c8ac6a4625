// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"

	tuttiapi "github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/test/controlplane"
)

// TestSchedulerThatComesLateFindsEveryGang: at its start the scheduler's queue
// and its gate learn of hundreds of gangs at once, in no order.
func TestSchedulerThatComesLateFindsEveryGang(t *testing.T) {
	const gangs = 400
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Dir: t.TempDir()})
	must(t, err)
	t.Cleanup(plane.Stop)
	must(t, plane.CreateNodes(t.Context(), controlplane.Small))
	s := newScene(t, plane)
	s.run([]step{{
		name: "many gangs of one pod, then the scheduler",
		do: func(ctx context.Context) error {
			group, ctx := errgroup.WithContext(ctx)
			group.SetLimit(16)
			for i := range gangs {
				name := fmt.Sprintf("g%d", i)
				group.Go(func() error {
					if err := s.createPodGroup(ctx, name, 1); err != nil {
						return err
					}
					pod := member(name, name, 0)
					pod.Spec = podSpec(tuttiapi.SchedulerName, 0)
					return s.createPod(ctx, pod)
				})
			}
			if err := group.Wait(); err != nil {
				return err
			}
			_, err := plane.StartScheduler("--leader-elect=false")
			return err
		},
		check: func(ctx context.Context) error {
			bound := 0
			for i := range gangs {
				if _, ok := s.boundSince(fmt.Sprintf("g%d", i)); ok {
					bound++
				}
			}
			if bound < gangs {
				return fmt.Errorf("%d of %d gangs are bound", bound, gangs)
			}
			return nil
		},
	}})
}
