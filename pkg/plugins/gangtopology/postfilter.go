// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"context"

	fwk "k8s.io/kube-scheduler/framework"
)

// PodGroupPostFilter implements fwk.PodGroupPostFilterPlugin: nothing is
// evicted for a gang. It is called after every cycle that placed nothing, so it
// sees the gangs that had a plan which other plugins then refused.
func (p *Plugin) PodGroupPostFilter(_ context.Context, state fwk.PodGroupCycleState, info fwk.PodGroupInfo, _ fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	if data, err := state.Read(planKey); err == nil {
		p.report.refused(info.GetPodGroup(), "planned in "+data.(*plan).round.domain+
			", but other filters refuse some of the pods together: the condition PodScheduled of each pod says why")
	}
	return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "no pods are evicted for a gang")
}
