// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tutti-project/tutti/test/controlplane"
)

// ownProfile enables the plugin and nothing else, as a user would who has
// levels of his own.
const ownProfile = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
profiles:
- schedulerName: my-scheduler
  plugins:
    multiPoint:
      enabled: [{name: GangTopology}]
  pluginConfig:
  - name: GangTopology
    args:
      levels:
      - {name: row, nodeLabels: [topology.tutti.dev/spine]}
`

// tornProfile lacks what keeps the engine from binding a part of a gang.
const tornProfile = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
profiles:
- schedulerName: my-scheduler
  plugins:
    multiPoint:
      enabled: [{name: GangTopology}]
      disabled: [{name: GangScheduling}]
`

func TestSchedulerConfigurations(t *testing.T) {
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Dir: t.TempDir()})
	must(t, err)
	t.Cleanup(plane.Stop)
	must(t, plane.CreateNodes(t.Context(), controlplane.Small))
	shipped, err := os.ReadFile("../../manifests/base/scheduler-config.yaml")
	must(t, err)

	t.Run("the shipped one", func(t *testing.T) {
		scheduler, err := plane.StartSchedulerWith(shipped)
		must(t, err)
		defer scheduler.Stop()
		s := newScene(t, plane)
		s.run([]step{{
			name:  "a gang by hand",
			do:    func(ctx context.Context) error { return s.createGang(ctx, "gang", 3, "tutti-scheduler") },
			check: s.bound("gang", 3),
		}})
	})
	t.Run("a profile that only enables the plugin", func(t *testing.T) {
		scheduler, err := plane.StartSchedulerWith([]byte(ownProfile))
		must(t, err)
		defer scheduler.Stop()
		s := newScene(t, plane)
		s.run([]step{
			{
				name:  "a gang by hand, too big",
				do:    func(ctx context.Context) error { return s.createGang(ctx, "big", 65, "my-scheduler") },
				check: s.refused("big", 65, "64 of 65"),
			},
			{
				name:  "a gang by hand",
				do:    func(ctx context.Context) error { return s.createGang(ctx, "gang", 3, "my-scheduler") },
				check: s.bound("gang", 3),
			},
		})
		s.expectWhole(t, "gang", 3)
	})
	t.Run("a profile that could tear gangs", func(t *testing.T) {
		scheduler, err := plane.StartSchedulerWith([]byte(tornProfile))
		must(t, err)
		select {
		case <-scheduler.Done():
		case <-t.Context().Done():
			t.Fatal("the scheduler runs")
		}
		if want := "enables GangTopology but not GangScheduling in multiPoint"; !strings.Contains(scheduler.Tail(), want) {
			t.Errorf("the scheduler said\n%s\nwant %q", scheduler.Tail(), want)
		}
	})
}

// createGang makes a PodGroup and its pods of 8 GPUs each, no TFJob.
func (s *scene) createGang(ctx context.Context, name string, size int, scheduler string) error {
	if err := s.createPodGroup(ctx, name, int32(size)); err != nil {
		return err
	}
	for i := range size {
		pod := member(fmt.Sprintf("%s-%d", name, i), name, 8)
		pod.Spec = podSpec(scheduler, 8)
		if err := s.createPod(ctx, pod); err != nil {
			return err
		}
	}
	return nil
}
