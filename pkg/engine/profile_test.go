// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"strings"
	"testing"

	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/tutti-project/tutti/pkg/plugins/gangtopology"
)

func defaults(t *testing.T) *schedulerconfig.KubeSchedulerConfiguration {
	t.Helper()
	if err := SetGates(); err != nil {
		t.Fatal(err)
	}
	config, err := DefaultConfiguration()
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func TestDefaultConfigurationServesGangs(t *testing.T) {
	config := defaults(t)
	gang, err := completeProfiles(config.Profiles)
	if err != nil {
		t.Fatal(err)
	}
	if !gang.Equal(gang.Clone().Insert("tutti-scheduler")) || gang.Len() != 1 {
		t.Errorf("gang schedulers %v", gang)
	}
	if config.LeaderElection.ResourceName != "tutti-scheduler" || !config.LeaderElection.LeaderElect {
		t.Errorf("leader election %+v", config.LeaderElection)
	}
	if config.ClientConnection.QPS != 1000 || config.ClientConnection.Burst != 2000 {
		t.Errorf("client connection %+v", config.ClientConnection)
	}
}

func TestCompleteProfileTurnsOffWhatItReplaces(t *testing.T) {
	config := defaults(t)
	for range 2 { // completing twice changes nothing
		if _, err := completeProfiles(config.Profiles); err != nil {
			t.Fatal(err)
		}
	}
	plugins := config.Profiles[0].Plugins
	for _, tc := range []struct {
		point  string
		set    schedulerconfig.PluginSet
		plugin string
	}{
		{"preEnqueue", plugins.PreEnqueue, names.GangScheduling},
		{"permit", plugins.Permit, names.GangScheduling},
		{"placementGenerate", plugins.PlacementGenerate, names.TopologyPlacementGenerator},
		{"podGroupPostFilter", plugins.PodGroupPostFilter, names.DefaultPreemption},
		{"podGroupPostFilter", plugins.PodGroupPostFilter, names.DynamicResources},
	} {
		n := 0
		for _, p := range tc.set.Disabled {
			if p.Name == tc.plugin {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s disables %s %d times, want once", tc.point, tc.plugin, n)
		}
	}
	for _, set := range []schedulerconfig.PluginSet{plugins.PreFilter, plugins.Filter} {
		if i := slices.IndexFunc(set.Enabled, func(p schedulerconfig.Plugin) bool { return p.Name == gangtopology.Name }); i != 0 || len(set.Enabled) != 1 {
			t.Errorf("enabled %v, want %s alone", set.Enabled, gangtopology.Name)
		}
	}
}

func TestCompleteProfilesRefuses(t *testing.T) {
	cases := map[string]struct {
		change func(*schedulerconfig.PluginSet)
		want   string
	}{
		"a profile without GangScheduling": {func(multiPoint *schedulerconfig.PluginSet) {
			multiPoint.Enabled = slices.DeleteFunc(multiPoint.Enabled, func(p schedulerconfig.Plugin) bool { return p.Name == names.GangScheduling })
		}, `profile "tutti-scheduler" enables GangTopology but not GangScheduling`},
		"no profile with GangTopology": {func(multiPoint *schedulerconfig.PluginSet) {
			multiPoint.Enabled = slices.DeleteFunc(multiPoint.Enabled, func(p schedulerconfig.Plugin) bool { return p.Name == gangtopology.Name })
		}, "no profile enables GangTopology"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			config := defaults(t)
			tc.change(&config.Profiles[0].Plugins.MultiPoint)
			if _, err := completeProfiles(config.Profiles); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}
