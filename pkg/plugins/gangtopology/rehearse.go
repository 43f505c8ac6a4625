// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tutti-project/tutti/pkg/placement"
)

const (
	// maxRehearsals bounds how often a gang is planned anew because its pods
	// do not go together.
	maxRehearsals = 32
	// maxQuestions bounds the hosts that one rehearsal asks the filters about.
	maxQuestions = 20000
)

// rehearsal plays a plan through as the engine is about to, on a copy of the
// snapshot: pod after pod in the engine's order, each judged by the profile's
// own plugins with the siblings before it in place. A pod that may not stand on
// its host goes to the nearest one that takes it.
type rehearsal struct {
	plugin *Plugin
	g      *gathered
	lister fwk.MutableSnapshotSharedLister
	undo   []func()

	level     int // pods stay in their planned domain of it
	left      []int
	placed    []int // [role]
	full      []bool
	questions int
}

// stuck is a gang of which a role found too few hosts beside its siblings.
type stuck struct {
	role   int
	placed int
	hosts  map[int]string // that the role was refused on, and why
	domain int
}

// settle plans the gang and, where its pods may constrain each other, rehearses
// the plan. A domain that turns out not to take them together is left out and
// the gang planned anew. Without placed pods, reason says why.
func (p *Plugin) settle(ctx context.Context, g *gathered, order []*v1.Pod) (decision placement.Decision, placed map[types.UID]pin, reason string, err error) {
	var nearest *stuck
	for range maxRehearsals {
		decision = g.plan()
		if decision.Hosts == nil {
			break
		}
		placed = g.assign(decision)
		if !g.intricate || len(placed) == 0 {
			return decision, placed, "", nil
		}
		settled, s, err := p.rehearse(ctx, g, order, placed)
		if err != nil || s == nil {
			return decision, settled, "", err
		}
		if nearest == nil || s.placed > nearest.placed {
			nearest = s
		}
		maps.Copy(g.barred[s.role], s.hosts)
	}
	decision.Hosts = nil
	if nearest != nil {
		return decision, nil, nearest.explain(g), nil
	}
	return decision, nil, decision.Explain(g.problem), nil
}

func (p *Plugin) rehearse(ctx context.Context, g *gathered, order []*v1.Pod, plan map[types.UID]pin) (settled map[types.UID]pin, s *stuck, err error) {
	r := &rehearsal{plugin: p, g: g, level: g.problem.Constraint.Required,
		left: make([]int, len(g.roles)), placed: make([]int, len(g.roles)), full: make([]bool, len(g.roles))}
	if c := g.problem.Constraint; c.SliceSize > 1 {
		r.level = max(r.level, c.SliceLevel)
	}
	err = p.onCopy(func(snapshot fwk.MutableSnapshotSharedLister) error {
		r.lister = snapshot
		defer r.undoAll()
		settled, s, err = r.play(ctx, order, plan)
		return err
	})
	return settled, s, err
}

func (r *rehearsal) undoAll() {
	for _, undo := range slices.Backward(r.undo) {
		undo()
	}
}

func (r *rehearsal) play(ctx context.Context, order []*v1.Pod, plan map[types.UID]pin) (map[types.UID]pin, *stuck, error) {
	for _, planned := range plan {
		r.left[planned.role]++
	}
	settled := map[types.UID]pin{}
	for _, pod := range order {
		planned, ok := plan[pod.UID]
		if !ok || r.full[planned.role] {
			continue
		}
		r.left[planned.role]--
		host, refusals, err := r.seat(ctx, pod, planned)
		if err != nil {
			return nil, nil, err
		}
		if host != placement.Unplaced {
			r.placed[planned.role]++
			settled[pod.UID] = pin{node: r.g.hosts.Tree.HostName(host), host: host, role: planned.role}
			continue
		}
		// Pods of one role are alike: no other of them finds a host either.
		r.full[planned.role] = true
		if r.placed[planned.role] < r.g.problem.Roles[planned.role].Minimum {
			return nil, &stuck{
				role: planned.role, placed: r.placed[planned.role], hosts: refusals,
				domain: r.g.hosts.Tree.DomainOf(planned.host, r.level),
			}, nil
		}
	}
	return settled, nil, nil
}

// seat finds the pod a host, its planned one if possible, and takes it there.
func (r *rehearsal) seat(ctx context.Context, pod *v1.Pod, planned pin) (int, map[int]string, error) {
	refusals := map[int]string{}
	probe := r.plugin.newProbe(ctx, pod)
	role := &r.g.problem.Roles[planned.role]
	for host := range r.nearTo(planned.host) {
		if role.Uniform && r.g.planner.KindOf(host) != r.g.planner.KindOf(planned.host) || !r.g.planner.Promises(host, role) {
			continue
		}
		if r.questions++; r.questions > maxQuestions {
			refusals[planned.host] = "the search for hosts stopped at its limit"
			break
		}
		if host != planned.host {
			if ok, why := role.Eligible(host); !ok {
				refusals[host] = why
				continue
			}
		}
		name := r.g.hosts.Tree.HostName(host)
		info, err := r.lister.NodeInfos().Get(name)
		if err != nil {
			return 0, nil, fmt.Errorf("reading node %s in the copy of the snapshot: %w", name, err)
		}
		ok, why := probe.ask(ctx, info)
		if ok {
			if why, err = r.take(ctx, probe.state, pod, name); err != nil {
				return 0, nil, err
			}
			if why == "" {
				return host, nil, nil
			}
		}
		refusals[host] = why
	}
	return placement.Unplaced, refusals, nil
}

// take puts the pod on the node, in the copy and in the plugins' own memory.
func (r *rehearsal) take(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) (refusal string, err error) {
	seated := pod.DeepCopy()
	seated.Spec.NodeName = node
	if status := r.plugin.handle.RunReservePluginsReserve(ctx, state, seated, node); !status.IsSuccess() {
		r.plugin.handle.RunReservePluginsUnreserve(ctx, state, seated, node)
		return status.Message(), nil
	}
	r.undo = append(r.undo, func() { r.plugin.handle.RunReservePluginsUnreserve(ctx, state, seated, node) })
	info, err := framework.NewPodInfo(seated)
	if err != nil {
		return "", fmt.Errorf("reading pod %s: %w", pod.Name, err)
	}
	if err := r.lister.AddPod(info, node); err != nil {
		return "", fmt.Errorf("putting pod %s into the copy of the snapshot: %w", pod.Name, err)
	}
	return "", nil
}

// nearTo lists the host and then all others of its domain of the level, the
// nearest first.
func (r *rehearsal) nearTo(host int) iter.Seq[int] {
	return func(yield func(int) bool) {
		tree := r.g.hosts.Tree
		first, last := host, host
		for level := len(tree.Levels()) - 1; level >= r.level; level-- {
			d := tree.Domain(tree.DomainOf(host, level))
			for h := d.First; h < d.Last; h++ {
				if inner := first <= h && h < last; !inner && !yield(h) {
					return
				}
			}
			first, last = d.First, d.Last
		}
	}
}

// explain: "rack r1 has room for all pods, but beside each other only for 2 of
// 4 worker; 6 hosts: node(s) didn't match pod anti-affinity rules".
func (s *stuck) explain(g *gathered) string {
	role := g.problem.Roles[s.role]
	count := map[string]int{}
	for _, why := range s.hosts {
		count[why]++
	}
	reasons := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		if count[a] != count[b] {
			return count[b] - count[a]
		}
		return strings.Compare(a, b)
	})
	parts := make([]string, len(reasons))
	for i, why := range reasons {
		noun := "hosts"
		if count[why] == 1 {
			noun = "host"
		}
		parts[i] = fmt.Sprintf("%d %s: %s", count[why], noun, why)
	}
	return fmt.Sprintf("%s has room for all pods by their size, but beside each other only for %d of %d %s; %s",
		g.hosts.Tree.Describe(s.domain), s.placed, role.Minimum, role.Name, strings.Join(parts, ", "))
}
