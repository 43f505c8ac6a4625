// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	"github.com/tutti-project/tutti/pkg/clusterview"
	"github.com/tutti-project/tutti/pkg/placement"
)

// gathered is all that one plan needs, read from the cycle's snapshot.
type gathered struct {
	key     types.NamespacedName
	group   *schedulingv1beta1.PodGroup
	hosts   clusterview.Hosts
	roles   []clusterview.Role
	planner *placement.Planner
	problem placement.Problem
	// intricate: pods may be refused for their siblings' sake. barred are the
	// hosts on which that was so.
	intricate bool
	barred    []map[int]string // [role]
	// running is how many members have a node, wanted how many more must be
	// placed to reach the group's minimum, quotas of which replica types.
	running, wanted int
	quotas          []quota
	on              []*v1.Pod // those members
	// patience is how long the gang may run in part before it moves; zero for ever.
	patience time.Duration
}

func (p *Plugin) gather(ctx context.Context, info fwk.PodGroupInfo, nodes []fwk.NodeInfo) (gathered, error) {
	g := gathered{
		key:   types.NamespacedName{Namespace: info.GetNamespace(), Name: info.GetName()},
		group: info.GetPodGroup(),
	}
	p.gate.takenUp(g.key)
	g.hosts = p.builder.Build(nodes)
	p.rooms.notice(p.handle.SnapshotSharedLister().NodeInfos())
	state, err := p.handle.SnapshotSharedLister().PodGroupStates().Get(g.key.Namespace, g.key.Name)
	if err != nil {
		g.roles = clusterview.RolesWith(info.GetUnscheduledPods(), p.volumes)
		return g, fmt.Errorf("reading the state of pod group %s: %w", g.key, err)
	}
	if g, err = p.pose(ctx, g, info.GetUnscheduledPods(), live(state.ScheduledPods())); err != nil {
		return g, err
	}
	p.rooms.release(info.GetUnscheduledPods())
	return g, nil
}

// pose completes what is gathered of a group on its hosts: these pods are to be
// placed, beside those that run.
func (p *Plugin) pose(ctx context.Context, g gathered, pods, running []*v1.Pod) (gathered, error) {
	g.roles = clusterview.RolesWith(pods, p.volumes)
	wishes, err := wishesOf(g.group, pods)
	if err != nil {
		return g, err
	}
	constraint, err := clusterview.ConstraintOf(g.hosts.Tree, wishes)
	if err != nil {
		return g, err
	}
	uniform, err := clusterview.UniformOf(g.group.Annotations)
	if err != nil {
		return g, err
	}
	link, err := clusterview.LinkOf(g.group.Annotations)
	if err != nil {
		return g, err
	}
	p.linked.asks(g.key, link > 0)
	roleMinimums, err := clusterview.RoleMinimumsOf(g.group.Annotations)
	if err != nil {
		return g, err
	}
	if g.patience, err = clusterview.MoveAfterOf(g.group.Annotations); err != nil {
		return g, err
	}
	g.running, g.on = len(running), running
	g.wanted = max(0, quorumOf(g.group)-g.running)
	g.roles = clusterview.BesideRunning(g.roles, running, g.hosts.Tree, constraint.SliceSize, constraint.SliceLevel)
	g.planner = p.builder.Planner(g.hosts, g.roles)
	conflicts := clusterview.ConflictsOf(g.roles)
	if len(conflicts) > 0 {
		g.planner = withConflicts(g.planner, g.hosts.Tree.Hosts(), conflicts)
	}
	g.problem = g.planner.Problem()
	g.problem.Constraint = constraint
	for _, pod := range running {
		if host, ok := g.hosts.Tree.HostIndex(pod.Spec.NodeName); ok {
			g.problem.Anchors = append(g.problem.Anchors, host)
		}
	}
	var lack string
	if g.quotas, lack = quotasOf(g.roles, g.wanted, roleMinimums, running); lack != "" {
		return g, errors.New(lack)
	}
	g.problem.Changes = p.rooms.beside(g.problem, priorityOf(g.group), ownOf(pods))
	for i, role := range g.roles {
		request := role.Vector(g.problem.Resources[:len(g.problem.Resources)-len(conflicts)])
		for _, conflict := range conflicts {
			request = append(request, conflict.Takes[i])
		}
		g.intricate = g.intricate || role.MeetsSiblings()
		g.barred = append(g.barred, map[int]string{})
		demand, gpu := role.Demand(link, g.problem.Resources)
		g.problem.Roles = append(g.problem.Roles, placement.Role{
			Name: role.Name, Family: role.Type, Pods: len(role.Pods), Request: request, Link: demand, GPU: gpu,
			Eligible: p.eligible(ctx, role, g.hosts.Tree, func(host int) string { return g.barred[i][host] },
				func(host int) (fwk.NodeInfo, error) { return g.hosts.Info(host), nil }),
			EligibleEmpty: p.eligibleEmpty(ctx, role, g.hosts),
			Uniform:       uniform && role.AsksForDevices(), Kind: g.kindOf(role, running), Serves: role.Type == serverType,
		})
	}
	g.split(g.sizes(), -1)
	return g, nil
}

// withConflicts is a planner for this gang alone, which counts conflicts as
// resources too. O(hosts).
func withConflicts(shared *placement.Planner, hosts int, conflicts []clusterview.Conflict) *placement.Planner {
	problem := shared.Problem()
	resources := slices.Clone(problem.Resources)
	for _, conflict := range conflicts {
		resources = append(resources, conflict.Name)
	}
	free := make([][]int64, hosts)
	for host := range free {
		free[host] = slices.Grow(slices.Clone(problem.Free[host]), len(conflicts))
		for _, conflict := range conflicts {
			free[host] = append(free[host], conflict.Capacity)
		}
	}
	own := placement.NewPlanner(problem.Tree, resources, free)
	for host := range free {
		own.SetKind(host, shared.KindOf(host))
		own.SetGPUs(host, shared.GPUs(host))
		if empty, ok := shared.Empty(host); ok {
			empty.Free = slices.Grow(slices.Clone(empty.Free), len(conflicts))
			for _, conflict := range conflicts {
				empty.Free = append(empty.Free, conflict.Capacity)
			}
			own.SetEmpty(empty)
		}
	}
	return own
}

// serverType is the replica type of parameter servers, as in the label.
var serverType = strings.ToLower(string(kubeflowv1.TFJobReplicaTypePS))

// kindOf is the kind of host that most of the role's running pods are on.
func (g gathered) kindOf(role clusterview.Role, running []*v1.Pod) string {
	count := map[string]int{}
	for _, pod := range running {
		if host, ok := g.hosts.Tree.HostIndex(pod.Spec.NodeName); ok && pod.Labels[kubeflowv1.ReplicaTypeLabel] == role.Type {
			count[g.planner.KindOf(host)]++
		}
	}
	most := ""
	for _, kind := range slices.Sorted(maps.Keys(count)) {
		if count[kind] > count[most] {
			most = kind
		}
	}
	return most
}

// short is how many pods are missing from the queue to reach the minimum.
func (g gathered) short() int { return g.wanted - g.waiting() }

func (g gathered) waiting() int {
	pods := 0
	for _, role := range g.roles {
		pods += len(role.Pods)
	}
	return pods
}
