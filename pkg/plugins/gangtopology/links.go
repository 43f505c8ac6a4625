// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"fmt"
	"sync"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
	"github.com/tutti-project/tutti/pkg/clusterview"
)

// linked are the gangs that wait for links between GPUs. What agents say of those
// changes with every pod that starts or ends, so it wakes these gangs and no others.
type linked struct {
	gate *gate

	mu    sync.Mutex
	gangs map[types.NamespacedName]bool
}

// asks takes note of whether a gang that is about to be planned demands links.
func (l *linked) asks(key types.NamespacedName, demands bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !demands {
		delete(l.gangs, key)
		return
	}
	if l.gangs == nil {
		l.gangs = map[types.NamespacedName]bool{}
	}
	l.gangs[key] = true
}

// changed wakes them, and forgets those that are no more.
func (l *linked) changed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key := range l.gangs {
		if !l.gate.outdate(key) {
			delete(l.gangs, key)
		}
	}
}

// watchTopologies keeps what the planner is to know of the nodes' GPUs.
func (p *Plugin) watchTopologies(informer cache.SharedIndexInformer) (*clusterview.Topologies, error) {
	known := &clusterview.Topologies{}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			known.Set(obj.(*v1alpha1.NodeTopology))
			p.promises.compare(obj.(*v1alpha1.NodeTopology))
			p.linked.changed()
		},
		UpdateFunc: func(old, obj any) {
			was, is := old.(*v1alpha1.NodeTopology), obj.(*v1alpha1.NodeTopology)
			known.Set(is)
			p.promises.compare(is)
			switch {
			case moreHealthy(was, is):
				p.gate.changed()
			case mayLink(was, is):
				p.linked.changed()
			}
		},
		DeleteFunc: func(obj any) {
			known.Delete(final[*v1alpha1.NodeTopology](obj).Name)
			p.gate.changed() // GPUs that it called unhealthy count again
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watching node topologies: %w", err)
	}
	return known, nil
}

// moreHealthy: a GPU that nobody was to need may be needed again.
func moreHealthy(was, is *v1alpha1.NodeTopology) bool {
	return len(was.Status.Unhealthy) > 0 && !apiequality.Semantic.DeepEqual(was.Status.Unhealthy, is.Status.Unhealthy)
}

// mayLink tells a change after which links may be certain that were not, from a
// heartbeat. One GPU less may help: with it gone all others may be linked. So may
// the heartbeat after a long silence, or of a clock that was ahead and is put right, and what the
// object says may be as before.
func mayLink(was, is *v1alpha1.NodeTopology) bool {
	if was.Status.HeartbeatTime == nil || is.Status.HeartbeatTime == nil || is.Status.HeartbeatTime.Before(was.Status.HeartbeatTime) ||
		is.Status.HeartbeatTime.Sub(was.Status.HeartbeatTime.Time) > clusterview.HeartbeatLimit {
		return true
	}
	x, y := was.Status.DeepCopy(), is.Status.DeepCopy()
	x.HeartbeatTime, y.HeartbeatTime = nil, nil
	return was.Generation != is.Generation || !apiequality.Semantic.DeepEqual(x, y)
}

// outdate makes a refusal of the gang stale, or the one to come if it is being
// planned, and tells whether the gang is known.
func (g *gate) outdate(key types.NamespacedName) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	gang, ok := g.gangs[key]
	if !ok {
		return false
	}
	gang.since[helpRoom] = never
	if gang.refused && !gang.stale {
		gang.stale = true
		g.lookAfter(key, gang, gang.retryAfter(lastTurn))
	}
	return true
}

// never is no epoch.
const never = ^uint64(0)
