// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/pkg/clusterview"
)

// move lets a gang go that lost members, and for a while has found no room for
// others beside those that it has, such as in the rack that it needs, if all of it
// would fit somewhere as soon as those are gone. They are evicted as in a preemption
// (evict.go), whoever made them makes them anew, and the gang is planned whole;
// until then the room that was found is held. A gang that has just begun, and has never
// been whole, is let go at once, wherever it fits: bindings failed, or the scheduler died amid
// them, and somebody took the room of the rest. It says what is to be told of that
// beside the refusal, for which a gang that runs in part gives cause.
func (p *Plugin) move(ctx context.Context, g gathered, waiting []*v1.Pod) string {
	if g.running == 0 || g.wanted == 0 {
		return ""
	}
	remains := fmt.Sprintf("; %d of the gang's pods run, fewer than its minimum of %d, and go on", g.running, quorumOf(g.group))
	uid := types.UID("move of " + g.key.String())
	why := fmt.Sprintf("gang %s has run in part for %s, without room for the rest beside it: it gives up its nodes and is placed anew, whole", g.key, g.patience)
	starts := starting(g.on, g.lacking(), quorumOf(g.group), p.gate.clock.Now()) && !p.gate.lost(g.key)
	if starts {
		why = fmt.Sprintf("gang %s was bound in part, and there is no room for the rest any more: it gives up its nodes and is placed anew, whole", g.key)
	}
	switch {
	case p.evictor.busy(uid):
		return "; " + why
	case g.patience == 0 && !starts:
		return remains + "; " + tutti.MoveAfterAnnotation + " is 0, so it does not move to where it would fit whole"
	case g.isOrphaned():
		return remains + "; nobody would make them anew elsewhere: delete all pods of the gang and create them again to have it placed where it fits whole"
	}
	remains += fmt.Sprintf("; after %s, %s, the gang is placed anew where it fits whole", g.patience, tutti.MoveAfterAnnotation)
	if !starts && p.inPart(g) < g.patience {
		return remains
	}
	pins, where := p.elsewhere(ctx, g, waiting)
	switch {
	case pins != nil:
		why += " in " + where
		p.rooms.reserve(pins)
	case !starts:
		return remains
	}
	klog.FromContext(ctx).Info("Evicting what is left of a gang, to place it anew elsewhere", "podGroup", klog.KRef(g.key.Namespace, g.key.Name), "pods", len(g.on), "where", where)
	p.letGo(g, uid, why)
	return "; " + why
}

// inPart is for how long a part of the gang has run, as its pods say.
func (p *Plugin) inPart(g gathered) time.Duration {
	now := p.gate.clock.Now()
	return now.Sub(tornSince(g.on, g.lacking(), now))
}

// lacking are the gang's pods that wait, by name.
func (g gathered) lacking() map[string]*v1.Pod {
	waiting := map[string]*v1.Pod{}
	for _, role := range g.roles {
		for _, pod := range role.Pods {
			waiting[pod.Name] = pod
		}
	}
	return waiting
}

// untilMove is how long the gang has to wait before it may move; zero if it may, or never does.
func (p *Plugin) untilMove(g gathered) time.Duration {
	if g.running == 0 || g.wanted == 0 || g.patience == 0 {
		return 0
	}
	return max(0, g.patience-p.inPart(g))
}

// elsewhere plans the whole gang as if none of it ran; nil where it does not fit.
// A gang whose pods mind each other is not judged: only a rehearsal could tell, and
// what is evicted for nothing is worse than what waits.
func (p *Plugin) elsewhere(ctx context.Context, g gathered, waiting []*v1.Pod) (pins map[*v1.Pod]string, where string) {
	all := slices.Clone(waiting)
	for _, pod := range g.on {
		anew := pod.DeepCopy()
		anew.Spec.NodeName = ""
		all = append(all, anew)
	}
	err := p.without(ctx, g.on, func() {
		whole, err := p.pose(ctx, gathered{key: g.key, group: g.group, hosts: g.hosts}, all, nil)
		if err != nil || whole.intricate {
			return
		}
		free := newChanges(whole.problem)
		for _, pod := range g.on {
			if host, ok := g.hosts.Tree.HostIndex(pod.Spec.NodeName); ok {
				left, request := free.of(host), clusterview.RequestOf(pod)
				for d, name := range whole.problem.Resources {
					left[d] += request[name]
				}
			}
		}
		whole.problem.Changes = free.list()
		nodes := p.handle.MutableSnapshotSharedLister().NodeInfos()
		for r := range whole.problem.Roles {
			whole.problem.Roles[r].Eligible = p.eligible(ctx, whole.roles[r], g.hosts.Tree, func(int) string { return "" },
				func(host int) (fwk.NodeInfo, error) { return nodes.Get(g.hosts.Tree.HostName(host)) })
		}
		decision := whole.plan()
		if decision.Hosts == nil {
			return
		}
		placed := whole.assign(decision)
		pins = map[*v1.Pod]string{}
		for _, pod := range all {
			if pin, ok := placed[pod.UID]; ok {
				pins[pod] = pin.node
			}
		}
		where = g.hosts.Tree.Describe(whole.enclosing(placed))
	})
	if err != nil {
		klog.FromContext(ctx).Error(err, "Could not look where a gang would fit whole", "podGroup", klog.KRef(g.key.Namespace, g.key.Name))
		return nil, ""
	}
	return pins, where
}

// reserve holds places for a gang that is to be placed anew, until it is, and for
// keepFor at the most after its pods must be gone.
func (r *rooms) reserve(pins map[*v1.Pod]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	until := r.clock.Now()
	for pod := range pins {
		grace := time.Duration(v1.DefaultTerminationGracePeriodSeconds) * time.Second
		if seconds := pod.Spec.TerminationGracePeriodSeconds; seconds != nil {
			grace = time.Duration(*seconds) * time.Second
		}
		if end := r.clock.Now().Add(grace + keepFor); end.After(until) {
			until = end
		}
	}
	for pod, node := range pins {
		if r.lost.places[node] == nil {
			r.lost.places[node] = map[types.UID]room{}
		}
		// Under a key of its own: the pod may have stood here, too.
		r.lost.places[node]["move of "+pod.UID] = room{pod: pod, node: node, request: clusterview.RequestOf(pod), until: until, moves: true}
	}
}
