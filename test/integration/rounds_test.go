// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"

	tuttiapi "github.com/tutti-project/tutti/pkg/apis/tutti"
)

const (
	rounds = 50
	// most is 60 % of the small cluster in whole nodes.
	most = 39
)

// TestOfTwoGangsThatDoNotFitTogetherOneRuns: interleaved, each would hold a part
// and wait for the other for ever.
func TestOfTwoGangsThatDoNotFitTogetherOneRuns(t *testing.T) {
	s := newScene(t, shared)
	for i := range rounds {
		s.round(fmt.Sprintf("a%d", i), fmt.Sprintf("b%d", i))
		if t.Failed() {
			t.Logf("in round %d of %d", i+1, rounds)
			return
		}
	}
}

// round lets two gangs compete, then the first leave and the second come in.
func (s *scene) round(a, b string) {
	var winner, loser string
	s.run([]step{{
		name: "both at once",
		do:   func(ctx context.Context) error { return s.createBoth(ctx, a, b) },
		check: func(ctx context.Context) error {
			winner, loser = a, b
			if s.bound(a, most)(ctx) != nil {
				winner, loser = b, a
			}
			return all(s.bound(winner, most), s.refused(loser, most))(ctx)
		},
	}})
	s.run([]step{
		{
			name:  "the first is deleted, the second starts",
			do:    func(ctx context.Context) error { return s.deleteJob(ctx, winner) },
			check: s.bound(loser, most),
		},
		{
			name:  "the second is deleted",
			do:    func(ctx context.Context) error { return s.deleteJob(ctx, loser) },
			check: s.gone(a, b),
		},
	})
	s.expectWhole(s.t, a, most)
	s.expectWhole(s.t, b, most)
	left, _ := s.goneSince(winner)
	if came, _ := s.boundSince(loser); came.Before(left) {
		s.t.Errorf("a pod of %s was bound at %s, before %s went at %s", loser, came, winner, left)
	}
}

func (s *scene) createBoth(ctx context.Context, names ...string) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, name := range names {
		group.Go(func() error {
			return s.createJob(ctx, annotated(job(name, workers(most, 8)), tuttiapi.ServicesAnnotation, tuttiapi.ServicesPerJob))
		})
	}
	return group.Wait()
}

// gone is true when no pod of these gangs is left.
func (s *scene) gone(gangs ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, gang := range gangs {
			if err := s.bound(gang, 0)(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}
