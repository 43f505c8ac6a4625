// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"cmp"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
)

// nextTurn is the key under which the gate's queue holds the line.
var nextTurn = types.NamespacedName{}

// patience bounds how long the line waits for a gang that does not come out of
// the scheduling queue.
const patience = time.Second

// line is where refused gangs wait. One change may let any of thousands in, so
// they are tried one after another, and between two of them a gang that was
// never refused goes first: thousands that do not fit take no more than every
// other turn from those that come new.
//
//	refused ──> idle ── something that can help ──> waiting ── its turn ──> let in
//	              ^                                                           │
//	              └───────────────────── refused again <──────────────────────┘
type line struct {
	idle, waiting map[types.NamespacedName]*gated
	// trying is the one that was let in and not yet taken up, tried when.
	trying types.NamespacedName
	tried  time.Time
	// fresh are gangs that were never refused, were let in, and will be taken up
	// soon; yield is set when one of them goes before the next turn.
	fresh map[types.NamespacedName]bool
	yield bool
	// refused are the kinds of gang that were refused in this epoch of room: one
	// that is alike would be too, for good or, if that is not zero, until then.
	refused map[string]time.Time
	at      uint64
}

func newLine() line {
	return line{
		idle: map[types.NamespacedName]*gated{}, waiting: map[types.NamespacedName]*gated{},
		fresh: map[types.NamespacedName]bool{}, refused: map[string]time.Time{},
	}
}

// leave takes a gang out of the line.
func (l *line) leave(key types.NamespacedName) {
	delete(l.idle, key)
	delete(l.waiting, key)
}

// enter notes that a gang is let in.
func (l *line) enter(key types.NamespacedName, gang *gated) {
	l.leave(key)
	if gang.let {
		return // once more: the activation was lost
	}
	gang.fresh = !gang.refused
	if gang.refused {
		l.trying, l.yield = key, true
	} else {
		l.fresh[key] = true
	}
}

// overlook lets the line move without waiting for a gang that comes new. If it
// is taken up after all, it went before the next turn as any other.
func (l *line) overlook(key types.NamespacedName) { delete(l.fresh, key) }

// entered notes that the planner has taken a gang up, or that it went away.
func (l *line) entered(key types.NamespacedName, gang *gated) {
	if l.trying == key {
		l.trying = nextTurn
	}
	if gang.fresh {
		gang.fresh = false
		delete(l.fresh, key)
		l.yield = false
	}
}

// no remembers that such gangs do not fit, as of that epoch, and until when that
// may be believed; zero for as long as the epoch lasts.
func (l *line) no(alike string, since uint64, until time.Time) {
	if alike == "" {
		return
	}
	if l.at != since {
		l.at = since
		clear(l.refused)
	}
	l.refused[alike] = until
}

// turns lets the next gang of the line in, or several that go no further than
// the gate.
func (g *gate) turns(logger klog.Logger) {
	for {
		key, ok := g.nextOfLine()
		if !ok {
			return
		}
		g.open(logger, key)
	}
}

// nextOfLine is the gang whose turn it is, if any may be tried now.
func (g *gate) nextOfLine() (types.NamespacedName, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.clock.Now()
	if g.line.trying != nextTurn || g.line.yield && len(g.line.fresh) > 0 {
		if wait := patience - now.Sub(g.line.tried); wait > 0 {
			if len(g.line.waiting) > 0 {
				g.queue.AddAfter(nextTurn, wait) // if nobody asks before
			}
			return nextTurn, false
		}
	}
	var next types.NamespacedName
	var best *gated
	var soonest time.Time
	for key, gang := range g.line.waiting {
		switch {
		case g.isLikeARefused(gang):
			g.again(key, gang)
		case gang.due.After(now):
			if soonest.IsZero() || gang.due.Before(soonest) {
				soonest = gang.due
			}
		case best == nil || g.before(key, gang, next, best):
			next, best = key, gang
		}
	}
	if best == nil {
		if !soonest.IsZero() {
			g.queue.AddAfter(nextTurn, soonest.Sub(now))
		}
		return nextTurn, false
	}
	delete(g.line.waiting, next)
	g.line.tried = now
	return next, true
}

// isLikeARefused tells whether a gang that room woke is like one that has been
// refused since. Callers hold mu.
func (g *gate) isLikeARefused(gang *gated) bool {
	epoch := g.epochs[helpRoom]
	until, refused := g.line.refused[gang.needs.alike]
	return gang.needs.alike != "" && refused && (until.IsZero() || g.clock.Now().Before(until)) &&
		g.line.at == epoch && gang.since[helpRoom] != epoch
}

// again refuses a gang as another one was that is alike, without asking the
// planner. Callers hold mu.
func (g *gate) again(key types.NamespacedName, gang *gated) {
	delete(g.line.waiting, key)
	g.line.idle[key] = gang
	gang.stale = false
	if until := g.line.refused[gang.needs.alike]; !until.IsZero() {
		g.lookAfter(key, gang, until.Sub(g.clock.Now()))
		return
	}
	gang.since = g.epochs
	g.lookAfter(key, gang, max(lostEvent, time.Duration(len(g.line.idle))*lostEventEach))
}

// before is the order of the line: priority; gangs of whose minimum a part
// runs; those that have not waited longer than they should; the longest
// wait.
func (g *gate) before(key types.NamespacedName, gang *gated, otherKey types.NamespacedName, other *gated) bool {
	rank := func(yes bool) int {
		if yes {
			return 1
		}
		return 0
	}
	return cmp.Or(
		cmp.Compare(priorityIn(other.member), priorityIn(gang.member)),
		cmp.Compare(rank(other.needs.partly), rank(gang.needs.partly)),
		cmp.Compare(rank(g.overdue(gang)), rank(g.overdue(other))),
		gang.waits.Compare(other.waits),
		cmp.Compare(key.String(), otherKey.String()),
	) < 0
}

func priorityIn(pod *v1.Pod) int32 {
	if pod == nil {
		return 0
	}
	return corev1helpers.PodPriority(pod)
}
