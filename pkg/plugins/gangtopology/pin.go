// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tutti-project/tutti/pkg/clusterview"
)

// pinKey is where a pod's pin lies in the state of its own cycle. The engine
// keeps that state from the simulation of a gang to its commit.
const pinKey fwk.StateKey = Name + "/pin"

// pin is one pod's place in a plan.
type pin struct {
	node string
	host int
	role int
}

// pinned is a pin with the round that the pod commits in.
type pinned struct {
	pin
	round *round
}

// Clone implements fwk.StateData; a pin is never changed.
func (p *pinned) Clone() fwk.StateData { return p }

// PreFilter implements fwk.PreFilterPlugin: the one node of the plan. A single pod
// may go to any that has room beside the places of lost members.
func (p *Plugin) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if _, err := state.Read(probeKey); err == nil {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	if _, ok := clusterview.GroupOf(pod); !ok {
		return p.holdsFrom(state, pod)
	}
	cycle := state.GetPodGroupSchedulingCycle()
	if cycle == nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "a gang's pod is only scheduled with its gang")
	}
	data, err := cycle.Read(planKey)
	if err != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "the gang has no plan")
	}
	plan := data.(*plan)
	pin, ok := plan.pins[pod.UID]
	if !ok {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, noRoomForExtras)
	}
	if plan.tryout != nil {
		plan.tryout.begin(pod.UID)
	}
	state.Write(pinKey, &pinned{pin: pin, round: plan.round})
	return &fwk.PreFilterResult{NodeNames: sets.New(pin.node)}, nil
}

// PreFilterExtensions implements fwk.PreFilterPlugin.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter implements fwk.FilterPlugin. It refuses every other node, because the
// fast paths for nominated nodes and for batches pass over PreFilter's result.
func (p *Plugin) Filter(_ context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	pinned := pinOf(state)
	if pinned == nil {
		return p.refuses(state, pod, node)
	}
	if pinned.node == node.Node().Name {
		return nil
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) not in the gang's plan")
}

// SignPod implements fwk.SignPlugin: ordinary pods stay batchable; a gang's
// pod is like no other.
func (p *Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if _, ok := clusterview.GroupOf(pod); ok {
		return nil, fwk.NewStatus(fwk.Unschedulable, "pods of a gang are placed by plan")
	}
	return nil, nil
}

func pinOf(state fwk.CycleState) *pinned {
	data, err := state.Read(pinKey)
	if err != nil {
		return nil
	}
	return data.(*pinned)
}
