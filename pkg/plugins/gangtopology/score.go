// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tutti-project/tutti/pkg/clusterview"
	"github.com/tutti-project/tutti/pkg/placement"
)

// scoreKey is where the scores of nodes lie in the state of a single pod's cycle.
const scoreKey fwk.StateKey = Name + "/scores"

// scores are those of the nodes that may take a pod.
type scores map[string]int64

// Clone implements fwk.StateData; scores are never changed.
func (s scores) Clone() fwk.StateData { return s }

// PreScore implements fwk.PreScorePlugin: it ranks the nodes for a single pod
// that asks for devices by what gangs lose with each.
func (p *Plugin) PreScore(_ context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	roles := clusterview.RolesOf([]*v1.Pod{pod})
	if _, inGang := clusterview.GroupOf(pod); inGang || !roles[0].AsksForDevices() {
		return fwk.NewStatus(fwk.Skip)
	}
	infos, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("reading the nodes: %w", err))
	}
	hosts := p.builder.Build(infos)
	s := scorer{hosts: hosts, planner: p.builder.Planner(hosts, roles), request: roles[0].Request, whole: map[int]bool{}}
	losses := make([]loss, len(nodes))
	for i, node := range nodes {
		losses[i] = s.lossOf(node, p.guard.avoids(node.Node().Name) != "")
	}
	ranked := scores{}
	for i, value := range rank(losses) {
		ranked[nodes[i].Node().Name] = value
	}
	state.Write(scoreKey, ranked)
	return nil
}

// Score implements fwk.ScorePlugin.
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	data, err := state.Read(scoreKey)
	if err != nil {
		return 0, fwk.AsStatus(fmt.Errorf("reading the scores: %w", err))
	}
	return data.(scores)[node.Node().Name], nil
}

// ScoreExtensions implements fwk.ScorePlugin.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return nil }

// loss is what gangs lose when a pod goes to a node, the most important first:
// the node is one that is avoided; pairs and quads of joined GPUs that break;
// domains that were free entirely, from the widest level to the host; and what
// would be left of a host in use already.
type loss []int64

// scorer judges nodes for one pod.
type scorer struct {
	hosts   clusterview.Hosts
	planner *placement.Planner
	request map[string]int64
	whole   map[int]bool // by domain, as far as somebody asked
}

func (s *scorer) lossOf(node fwk.NodeInfo, avoided bool) loss {
	host, ok := s.hosts.Tree.HostIndex(node.Node().Name)
	if !ok {
		return loss{1} // the snapshot has it, so it is in the tree
	}
	l := loss{bit(avoided), s.islandsBroken(host)}
	for level := 1; level < len(s.hosts.Tree.Levels()); level++ {
		l = append(l, bit(s.isWhole(s.hosts.Tree.DomainOf(host, level))))
	}
	left := int64(0)
	for d, name := range s.planner.Problem().Resources {
		if placement.IsDevice(name) {
			left += max(0, s.planner.Free(host)[d]-s.request[name])
		}
	}
	return append(l, left)
}

// islandsBroken counts what may break if the device plugin picks the worst GPUs.
func (s *scorer) islandsBroken(host int) int64 {
	gpus := s.planner.GPUs(host)
	if gpus.Model == nil {
		return 0
	}
	size := int(s.request[s.planner.Problem().Resources[gpus.Resource]])
	if size == 0 || size > gpus.Free.Len() {
		return 0
	}
	_, most := gpus.Model.Broken(gpus.Free, size)
	return int64(most)
}

// isWhole tells whether no device of the domain is in use. O(its hosts), once.
func (s *scorer) isWhole(id int) bool {
	whole, known := s.whole[id]
	if known {
		return whole
	}
	whole = true
	for d, host := s.hosts.Tree.Domain(id), 0; whole && d.First+host < d.Last; host++ {
		for name, n := range s.hosts.Info(d.First + host).GetRequested().GetScalarResources() {
			whole = whole && (n == 0 || !placement.IsDevice(string(name)))
		}
	}
	s.whole[id] = whole
	return whole
}

// rank gives the least loss the highest score, equal ones the same, and spreads
// the steps between evenly.
func rank(losses []loss) []int64 {
	steps := slices.Clone(losses)
	slices.SortFunc(steps, slices.Compare[loss])
	steps = slices.CompactFunc(steps, func(a, b loss) bool { return slices.Equal(a, b) })
	ranked := make([]int64, len(losses))
	for i, l := range losses {
		step, _ := slices.BinarySearchFunc(steps, l, slices.Compare[loss])
		ranked[i] = fwk.MaxScore
		if len(steps) > 1 {
			ranked[i] -= fwk.MaxScore * int64(step) / int64(len(steps)-1)
		}
	}
	return ranked
}

func bit(is bool) int64 {
	if is {
		return 1
	}
	return 0
}
