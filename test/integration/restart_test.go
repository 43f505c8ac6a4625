// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-project/tutti/test/controlplane"
)

// kills is how often each program is killed in each half of a round.
const kills = 3

// mortal is a program that the test kills and starts again. Without leader
// election: a killed leader's lease would keep its successor waiting 15 seconds
// each time, and it is the successor's work that is tested.
type mortal struct {
	name    string
	start   func() error
	process *controlplane.Process
}

// mortalScheduler is one that runs.
func mortalScheduler(t *testing.T, plane *controlplane.ControlPlane, flags ...string) *mortal {
	t.Helper()
	scheduler := &mortal{name: "scheduler"}
	scheduler.start = func() (err error) {
		scheduler.process, err = plane.StartScheduler(append([]string{"--leader-elect=false"}, flags...)...)
		return err
	}
	must(t, scheduler.start())
	return scheduler
}

func TestKilledProgramsLoseNothingAndDoNothingTwice(t *testing.T) {
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Dir: t.TempDir()})
	must(t, err)
	t.Cleanup(plane.Stop)
	must(t, plane.CreateNodes(t.Context(), controlplane.Small))
	controller := &mortal{name: "controller"}
	controller.start = func() (err error) {
		controller.process, err = plane.StartController("--leader-elect=false")
		return err
	}
	scheduler := mortalScheduler(t, plane)
	must(t, controller.start())
	for i := range kills {
		for _, victim := range []*mortal{scheduler, controller} {
			t.Run(fmt.Sprintf("%s %d", victim.name, i+1), func(t *testing.T) {
				killInRound(t, plane, victim)
			})
			if t.Failed() {
				return
			}
		}
	}
}

// killInRound lets a gang, two rivals and one that cannot fit come together
// and kills the victim at a random moment; then makes room for the second rival
// and kills the victim again. The end is as if nothing had happened.
func killInRound(t *testing.T, plane *controlplane.ControlPlane, victim *mortal) {
	const train, tooBig = 6, 70
	s := newScene(t, plane)
	var winner, loser string
	s.run([]step{
		{
			name: "jobs come and the program dies",
			do: func(ctx context.Context) error {
				dead := s.killWhen(victim, rand.IntN(train+2*most+tooBig), rand.IntN(train+most))
				if err := s.createJob(ctx, job("train", ps(2), workers(4, 8))); err != nil {
					return err
				}
				if err := s.createBoth(ctx, "a", "b"); err != nil {
					return err
				}
				if err := s.createJob(ctx, job("big", workers(tooBig, 8))); err != nil {
					return err
				}
				return s.restart(ctx, victim, dead)
			},
			check: func(ctx context.Context) error {
				winner, loser = "a", "b"
				if s.bound("a", most)(ctx) != nil {
					winner, loser = "b", "a"
				}
				return all(s.bound("train", train), s.bound(winner, most), s.refused(loser, most), s.refused("big", tooBig))(ctx)
			},
		},
		{name: "as without a death", check: all(s.racks("train", 1), s.servicePerPod("train", train))},
	})
	s.run([]step{{
		name: "room is made and the program dies",
		do: func(ctx context.Context) error {
			dead := s.killWhen(victim, 0, train+most+rand.IntN(most))
			if err := s.deleteJob(ctx, winner); err != nil {
				return err
			}
			return s.restart(ctx, victim, dead)
		},
		check: all(s.bound("train", train), s.bound(loser, most), s.gone(winner), s.refused("big", tooBig)),
	}})
	for gang, size := range map[string]int{"train": train, "a": most, "b": most, "big": tooBig} {
		if got := len(s.members(gang)); got != size {
			t.Errorf("gang %s had %d pods in its time, want %d: some were made twice", gang, got, size)
		}
	}
	for _, move := range s.moved() {
		t.Error(move)
	}
}

// killWhen kills the victim as soon as the recorder has seen so many pods and
// so many bindings. The program may have done more by then, as in a real crash.
func (s *scene) killWhen(victim *mortal, created, bound int) <-chan struct{} {
	s.t.Logf("the %s dies when %d pods are made and %d bound", victim.name, created, bound)
	process := victim.process
	return s.when(created, bound, process.Kill)
}

func (s *scene) restart(ctx context.Context, victim *mortal, dead <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-ctx.Done():
		return fmt.Errorf("the moment to kill the %s did not come: %w", victim.name, ctx.Err())
	case <-dead:
		return victim.start()
	}
}

// servicePerPod is true when the gang has just one service for each pod.
func (s *scene) servicePerPod(gang string, size int) func(context.Context) error {
	return func(ctx context.Context) error {
		services, err := s.plane.Client.CoreV1().Services(s.namespace).List(ctx,
			metav1.ListOptions{LabelSelector: "training.kubeflow.org/job-name=" + gang})
		if err == nil && len(services.Items) != size {
			err = fmt.Errorf("job %s has %d services, want %d", gang, len(services.Items), size)
		}
		return err
	}
}
