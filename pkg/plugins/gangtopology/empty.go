// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"context"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/tutti-project/tutti/pkg/clusterview"
)

// lasting are the filters that judge a node by itself. What others say may change
// when pods go.
var lasting = map[string]bool{
	names.NodeUnschedulable: true, names.NodeName: true, names.TaintToleration: true, names.NodeAffinity: true,
}

// eligibleEmpty asks whether a pod of the role may stand on a node that has no pods.
func (p *Plugin) eligibleEmpty(ctx context.Context, role clusterview.Role, hosts clusterview.Hosts) func(int) (bool, string) {
	var probe *probe
	return func(host int) (bool, string) {
		if !role.MayBeIn(hosts.Tree, host) {
			return false, elsewhere
		}
		if probe == nil {
			probe = p.newProbe(ctx, role.Pods[0])
		}
		node := framework.NewNodeInfo()
		node.SetNode(hosts.Info(host).Node())
		return probe.askLasting(ctx, node)
	}
}

// askLasting is ask, but for refusals that may pass.
func (p *probe) askLasting(ctx context.Context, node fwk.NodeInfo) (bool, string) {
	if p.refusal != "" || p.only != nil && !p.only.Has(node.Node().Name) {
		return true, "" // by whom, and for how long, is not known
	}
	status := p.plugin.handle.RunFilterPlugins(ctx, p.state, p.pod, node)
	return status.IsSuccess() || !lasting[status.Plugin()], status.Message()
}
