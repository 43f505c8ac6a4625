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
	if want := (schedulerconfig.Plugin{Name: gangtopology.Name, Weight: scoreWeight}); !slices.Equal(plugins.Score.Enabled, []schedulerconfig.Plugin{want}) {
		t.Errorf("score enables %v, want %v", plugins.Score.Enabled, want)
	}
	for _, set := range []schedulerconfig.PluginSet{plugins.PreFilter, plugins.Filter} {
		if i := slices.IndexFunc(set.Enabled, func(p schedulerconfig.Plugin) bool { return p.Name == gangtopology.Name }); i != 0 || len(set.Enabled) != 1 {
			t.Errorf("enabled %v, want %s alone", set.Enabled, gangtopology.Name)
		}
	}
}

func TestCompleteProfilesRefuses(t *testing.T) {
	plugin := func(name string) schedulerconfig.Plugin { return schedulerconfig.Plugin{Name: name} }
	without := func(set *schedulerconfig.PluginSet, name string) {
		set.Enabled = slices.DeleteFunc(set.Enabled, func(p schedulerconfig.Plugin) bool { return p.Name == name })
	}
	cases := map[string]struct {
		change func(*schedulerconfig.Plugins)
		want   string
	}{
		"a profile without GangScheduling": {
			func(p *schedulerconfig.Plugins) { without(&p.MultiPoint, names.GangScheduling) },
			`profile "tutti-scheduler" enables GangTopology but not GangScheduling`,
		},
		"no profile with GangTopology": {
			func(p *schedulerconfig.Plugins) { without(&p.MultiPoint, gangtopology.Name) },
			"no profile enables GangTopology",
		},
		"a plugin after GangTopology": {
			func(p *schedulerconfig.Plugins) {
				p.MultiPoint.Enabled = append(p.MultiPoint.Enabled, plugin("Another"))
			},
			`profile "tutti-scheduler": multiPoint.enabled has Another after GangTopology`,
		},
		"a plugin in PreBind alone, which comes after those of multiPoint": {
			func(p *schedulerconfig.Plugins) { p.PreBind.Enabled = append(p.PreBind.Enabled, plugin("Another")) },
			"preBind.enabled has Another, which would prepare pods after the gang's barrier",
		},
		"GangTopology in PreBind too, which comes before the others": {
			func(p *schedulerconfig.Plugins) {
				p.PreBind.Enabled = append(p.PreBind.Enabled, plugin(gangtopology.Name))
			},
			"preBind.enabled has GangTopology",
		},
		"a step turned off": {
			func(p *schedulerconfig.Plugins) {
				p.Permit.Disabled = append(p.Permit.Disabled, plugin(gangtopology.Name))
			},
			"permit.disabled has GangTopology",
		},
		"a step turned off with all others": {
			func(p *schedulerconfig.Plugins) { p.PreBind.Disabled = append(p.PreBind.Disabled, plugin("*")) },
			"preBind.disabled has GangTopology",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			config := defaults(t)
			tc.change(config.Profiles[0].Plugins)
			if _, err := completeProfiles(config.Profiles); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestCompleteProfilesTakesAPluginNamedInPreBindAndMultiPoint(t *testing.T) {
	config := defaults(t)
	plugins := config.Profiles[0].Plugins
	plugins.PreBind.Enabled = append(plugins.PreBind.Enabled, schedulerconfig.Plugin{Name: names.VolumeBinding})
	if _, err := completeProfiles(config.Profiles); err != nil {
		t.Error(err)
	}
}
