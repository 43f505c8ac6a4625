// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"context"

	fwk "k8s.io/kube-scheduler/framework"
)

// PodGroupPostFilter implements fwk.PodGroupPostFilterPlugin: nothing is
// evicted for a gang.
func (p *Plugin) PodGroupPostFilter(context.Context, fwk.PodGroupCycleState, fwk.PodGroupInfo, fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "no pods are evicted for a gang")
}
