// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/pkg/plugins/gangtopology"
	"github.com/tutti-project/tutti/pkg/topology"
)

// Client limits of the built-in configuration. kube-scheduler's 50 would bind
// 50 pods a second.
const (
	defaultQPS   = 1000
	defaultBurst = 2000
)

// DefaultConfiguration is what serves without --config: one profile, and a
// lease of its own.
func DefaultConfiguration() (*schedulerconfig.KubeSchedulerConfiguration, error) {
	config, err := latest.Default()
	if err != nil {
		return nil, fmt.Errorf("making the default configuration: %w", err)
	}
	config.ClientConnection.QPS = defaultQPS
	config.ClientConnection.Burst = defaultBurst
	config.LeaderElection.ResourceName = tutti.SchedulerName
	config.LeaderElection.ResourceNamespace = tutti.Namespace
	config.Profiles[0].SchedulerName = tutti.SchedulerName
	multiPoint := &config.Profiles[0].Plugins.MultiPoint
	multiPoint.Enabled = append(multiPoint.Enabled, schedulerconfig.Plugin{Name: gangtopology.Name})
	return config, nil
}

// LevelsOf are the levels of the first profile that places gangs.
func LevelsOf(config *schedulerconfig.KubeSchedulerConfiguration) ([]topology.Level, error) {
	for _, profile := range config.Profiles {
		if profile.Plugins != nil && enables(profile.Plugins.MultiPoint, gangtopology.Name) {
			return gangtopology.LevelsOf(profile)
		}
	}
	return nil, noGangProfile()
}

// LeaseOf is the lease that the leading scheduler holds.
func LeaseOf(config *schedulerconfig.KubeSchedulerConfiguration) types.NamespacedName {
	return types.NamespacedName{Namespace: config.LeaderElection.ResourceNamespace, Name: config.LeaderElection.ResourceName}
}

func noGangProfile() error {
	return fmt.Errorf("no profile enables %s in multiPoint: there is nothing to do that kube-scheduler does not do", gangtopology.Name)
}

// completeProfiles gives every profile that enables GangTopology what the
// plugin needs, and returns the schedulers of these profiles. A profile that
// cannot work is an error.
func completeProfiles(profiles []schedulerconfig.KubeSchedulerProfile) (sets.Set[string], error) {
	gang := sets.New[string]()
	for i := range profiles {
		profile := &profiles[i]
		if profile.Plugins == nil || !enables(profile.Plugins.MultiPoint, gangtopology.Name) {
			continue
		}
		if !enables(profile.Plugins.MultiPoint, names.GangScheduling) {
			return nil, fmt.Errorf("profile %q enables %s but not %s in multiPoint: without it nothing keeps the engine from binding part of a gang; "+
				"take it out of multiPoint.disabled (Tutti turns off by itself the parts of it that it replaces)",
				profile.SchedulerName, gangtopology.Name, names.GangScheduling)
		}
		if err := checkOrder(profile.Plugins); err != nil {
			return nil, fmt.Errorf("profile %q: %w", profile.SchedulerName, err)
		}
		completeProfile(profile.Plugins)
		gang.Insert(profile.SchedulerName)
	}
	if gang.Len() == 0 {
		return nil, noGangProfile()
	}
	return gang, nil
}

// checkOrder refuses what would let a pod of a gang be bound before all of them
// can be: a profile without one of the plugin's steps, or one in which another
// plugin prepares a pod after the gang's last barrier, which is in PreBind. Of
// the plugins of a point, those come first that are named there and in multiPoint,
// then those of multiPoint alone, then those named there alone.
func checkOrder(plugins *schedulerconfig.Plugins) error {
	for point, set := range map[string]schedulerconfig.PluginSet{
		"preEnqueue": plugins.PreEnqueue, "placementGenerate": plugins.PlacementGenerate, "preFilter": plugins.PreFilter,
		"filter": plugins.Filter, "reserve": plugins.Reserve, "permit": plugins.Permit, "preBind": plugins.PreBind,
	} {
		if disables(set, gangtopology.Name) {
			return fmt.Errorf("%s.disabled has %s: it needs this step to bind whole gangs only; take it out", point, gangtopology.Name)
		}
	}
	if enables(plugins.PreBind, gangtopology.Name) {
		return fmt.Errorf("preBind.enabled has %s, which would run before other plugins there: take it out, multiPoint is enough", gangtopology.Name)
	}
	for _, other := range plugins.PreBind.Enabled {
		if !enables(plugins.MultiPoint, other.Name) {
			return fmt.Errorf("preBind.enabled has %s, which would prepare pods after the gang's barrier: enable it in multiPoint, before %s", other.Name, gangtopology.Name)
		}
	}
	if last := plugins.MultiPoint.Enabled[len(plugins.MultiPoint.Enabled)-1].Name; last != gangtopology.Name {
		return fmt.Errorf("multiPoint.enabled has %s after %s, and what it prepares of a pod would come after the gang's barrier: list %[2]s last", last, gangtopology.Name)
	}
	return nil
}

// scoreWeight is what gangs' loss weighs where a single pod asks for devices:
// more than spreading the load, of which several plugins with weights 1 to 3 take
// care. A profile may give it another one.
const scoreWeight = 10

func completeProfile(plugins *schedulerconfig.Plugins) {
	for _, off := range []struct {
		point  *schedulerconfig.PluginSet
		plugin string
	}{
		// Replaced by the counting gate, the barrier and the planner.
		{&plugins.PreEnqueue, names.GangScheduling},
		{&plugins.Permit, names.GangScheduling},
		{&plugins.PlacementGenerate, names.TopologyPlacementGenerator},
		// They would evict single members for a gang, and re-run the planner
		// on a what-if snapshot.
		{&plugins.PodGroupPostFilter, names.DefaultPreemption},
		{&plugins.PodGroupPostFilter, names.DynamicResources},
		{&plugins.PostFilter, names.DefaultPreemption},
	} {
		if !disables(*off.point, off.plugin) {
			off.point.Disabled = append(off.point.Disabled, schedulerconfig.Plugin{Name: off.plugin})
		}
	}
	// Named at the point too, a plugin runs before those of multiPoint alone:
	// the one node first, then all others' filters on it.
	for _, point := range []*schedulerconfig.PluginSet{&plugins.PreFilter, &plugins.Filter} {
		if !enables(*point, gangtopology.Name) {
			point.Enabled = append(point.Enabled, schedulerconfig.Plugin{Name: gangtopology.Name})
		}
	}
	if !enables(plugins.Score, gangtopology.Name) && !disables(plugins.Score, gangtopology.Name) {
		plugins.Score.Enabled = append(plugins.Score.Enabled, schedulerconfig.Plugin{Name: gangtopology.Name, Weight: scoreWeight})
	}
}

func enables(set schedulerconfig.PluginSet, name string) bool {
	return slices.ContainsFunc(set.Enabled, func(p schedulerconfig.Plugin) bool { return p.Name == name })
}

func disables(set schedulerconfig.PluginSet, name string) bool {
	return slices.ContainsFunc(set.Disabled, func(p schedulerconfig.Plugin) bool { return p.Name == name || p.Name == "*" })
}
