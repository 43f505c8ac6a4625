// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// probeKey marks the state of a cycle that only asks; this plugin's own
// PreFilter stays out of it.
const probeKey fwk.StateKey = Name + "/probe"

// probe asks a profile's filters about one pod, host by host.
type probe struct {
	plugin *Plugin
	pod    *v1.Pod
	state  fwk.CycleState
	// only is the hosts that PreFilter left; nil means all.
	only sets.Set[string]
	// refusal is set when PreFilter refused every host.
	refusal string
}

func (p *Plugin) newProbe(ctx context.Context, pod *v1.Pod) *probe {
	probe := &probe{plugin: p, pod: pod, state: framework.NewCycleState()}
	probe.state.Write(probeKey, mark{})
	result, status, _ := p.handle.RunPreFilterPlugins(ctx, probe.state, pod)
	switch {
	case !status.IsSuccess():
		probe.refusal = status.Message()
		if probe.refusal == "" {
			probe.refusal = "refused by " + status.Plugin()
		}
	case !result.AllNodes():
		probe.only = result.NodeNames
	}
	return probe
}

func (p *probe) ask(ctx context.Context, node fwk.NodeInfo) (bool, string) {
	if p.refusal != "" {
		return false, p.refusal
	}
	if p.only != nil && !p.only.Has(node.Node().Name) {
		return false, "node(s) not among those that the pod may use"
	}
	status := p.plugin.handle.RunFilterPluginsWithNominatedPods(ctx, p.state, p.pod, node)
	return status.IsSuccess(), status.Message()
}

type mark struct{}

// Clone implements fwk.StateData.
func (m mark) Clone() fwk.StateData { return m }
