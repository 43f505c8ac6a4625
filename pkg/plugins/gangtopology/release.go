// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/tutti-project/tutti/pkg/clusterview"
)

const (
	// A gang below its minimum of which pods cannot be bound, try after try, gives
	// up the nodes that it has after firstRelease; if that happens again after
	// twice as long, up to lastRelease.
	firstRelease = time.Minute
	lastRelease  = 16 * time.Minute
	// failureGap is how long after a failed try another one is of the same series if
	// it begins then; tries are no further apart than lastRetry.
	failureGap = 30 * time.Second
)

// failures are a gang's tries that failed one after another: pods could not be bound,
// or not be made ready to be.
type failures struct {
	first, last time.Time
	// releases is how often the gang has given up its nodes since it was calm.
	releases int
}

// add counts a try that began then and has failed now.
func (f *failures) add(begun, now time.Time) {
	if begun.Sub(f.last) > failureGap {
		f.first = now
	}
	f.last = now
}

// tooLong tells whether they have gone on for so long that the gang is not to
// keep its nodes any longer.
func (f *failures) tooLong(now time.Time) bool {
	return now.Sub(f.last) <= failureGap && f.last.Sub(f.first) >= min(lastRelease, firstRelease<<min(f.releases, 10))
}

// release lets a gang go that runs in part and cannot be completed: what the API
// server refuses for ever would keep the others' nodes for nothing. Its pods are
// evicted, whoever made them makes them anew, and the gang is planned whole.
// Pods that nobody would make anew stay. It says why none of it is placed now;
// empty: go on.
func (p *Plugin) release(g gathered) string {
	if g.running == 0 || g.wanted == 0 {
		return ""
	}
	uid := types.UID("release of " + g.key.String())
	why := fmt.Sprintf("gang %s runs in part, and for %s other pods of it could not be bound: it gives up its nodes and is placed anew, whole", g.key, firstRelease)
	if p.evictor.busy(uid) {
		return why
	}
	if g.isOrphaned() || !p.gate.releases(g.key) {
		return ""
	}
	klog.Background().Info("Evicting the pods of a gang that cannot be bound whole", "podGroup", klog.KRef(g.key.Namespace, g.key.Name), "pods", len(g.on))
	p.letGo(g, uid, why)
	return why
}

// isOrphaned tells whether nobody would make some of the gang's pods anew.
func (g gathered) isOrphaned() bool {
	return slices.ContainsFunc(g.on, func(pod *v1.Pod) bool { return metav1.GetControllerOfNoCopy(pod) == nil })
}

// letGo evicts what runs of the gang, so that it is placed anew, whole.
func (p *Plugin) letGo(g gathered, uid types.UID, why string) {
	p.evictor.evict(order{
		preemptor: "release of gang " + g.key.String(), uid: uid, priority: priorityOf(g.group), victims: g.on,
		units: []clusterview.Unit{{Gang: g.key, Pods: g.on}}, wake: func() {}, why: why, what: "Released",
	})
}

// inVain is called when a gang that has nodes below its minimum could not be completed,
// and begun is when the try began.
func (g *gate) inVain(key types.NamespacedName, begun time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if gang, ok := g.gangs[key]; ok {
		gang.failures.add(begun, g.clock.Now())
	}
}

// releases tells whether the gang is to give up its nodes, and begins to count anew
// if so.
func (g *gate) releases(key types.NamespacedName) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	gang := g.gang(key)
	if !gang.failures.tooLong(g.clock.Now()) {
		return false
	}
	gang.failures = failures{releases: gang.failures.releases + 1}
	return true
}
