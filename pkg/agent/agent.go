// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package agent answers how a node's NodeTopology is kept true.
//
//	source ─┐ polled, each at its own pace     ┌─> NodeTopology: spec, status
//	source ─┼──────────> sightings ──> report ─┤   (on change, and as a heartbeat)
//	source ─┘                                  └─> the node's label
//
// What was seen becomes a report by a pure function. A report is written when it differs from what
// the API server has, and otherwise only to say that the agent lives. While the API server is away
// the agent goes on looking, and writes the latest report when it is back.
package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/tutti-project/tutti/pkg/discovery"
)

// Poll is a source and how often it is asked while nothing changes.
type Poll struct {
	Source discovery.Source
	Every  time.Duration
}

// Options of an agent.
type Options struct {
	// Node is the name of the node, and of its NodeTopology.
	Node  string
	Polls []Poll
	// Heartbeat is the longest time between two writes; they come up to a quarter earlier, so that
	// agents started together do not write together.
	Heartbeat time.Duration
	// Now is the clock, and Random a number from 0 up to 1.
	Now    func() time.Time
	Random func() float64
}

const (
	// debounce is how long a change waits for others, as those of a gang's pods come together, and
	// patience how long it waits in all. Readers count on the first: a pod that was admitted in the
	// second of the heartbeat is not taken into account for them.
	debounce = time.Second
	patience = 5 * time.Second
	// settle is how long the first report waits for sources that have not answered yet.
	settle = 30 * time.Second
	// review is how often the report is made anew, since what was seen also ages.
	review = 30 * time.Second
	// retryAtFirst and retryAtMost are between attempts to write.
	retryAtFirst = time.Second
	retryAtMost  = time.Minute
)

// Agent keeps one node's NodeTopology.
type Agent struct {
	options Options
	writer  *writer
	changed chan struct{} // holds one: something was seen

	mu       sync.Mutex // over all below
	seen     []sighting
	written  bool // at least once
	lastErr  error
	progress time.Time // of the loop
}

// New makes an agent; it does nothing until Run.
func New(clients Clients, options Options) *Agent {
	registerMetrics()
	a := &Agent{
		options: options,
		writer:  &writer{clients: clients, node: options.Node, now: options.Now},
		changed: make(chan struct{}, 1),
	}
	for _, poll := range options.Polls {
		a.seen = append(a.seen, sighting{source: poll.Source.Name()})
	}
	return a
}

// Run works until ctx is done.
func (a *Agent) Run(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	for i := range a.options.Polls {
		kick := make(chan struct{}, 1)
		group.Go(func() { a.poll(ctx, i, kick) })
		if watcher, ok := a.options.Polls[i].Source.(discovery.Watcher); ok {
			group.Go(func() { until(ctx, func() { watcher.Watch(ctx, func() { signal(kick) }) }) })
		}
	}
	a.publish(ctx)
}

// publish writes when something has changed, when it is time for a heartbeat, and again after a
// failure.
func (a *Agent) publish(ctx context.Context) {
	logger := klog.FromContext(ctx)
	start := a.options.Now()
	var beat time.Time  // when the next heartbeat is due
	var first time.Time // when the first change was seen that is not written yet
	failures := 0
	pause := debounce
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.changed:
			// After a failure the pause stands: an API server that is coming back is not to be flooded.
			now := a.options.Now()
			if first.IsZero() {
				first = now
			}
			if pause := min(debounce, first.Add(patience).Sub(now)); failures == 0 && pause > 0 {
				timer.Reset(pause)
			}
			continue
		case <-timer.C:
		}
		first = time.Time{}
		now := a.options.Now()
		if report, ok := a.report(start, now); !ok {
			pause = debounce
		} else if wrote, err := a.write(ctx, report, !now.Before(beat)); err != nil {
			if wrote {
				beat = a.nextBeat(now)
			}
			failures++
			pause = a.backOff(failures)
			a.note(now, err)
			if ctx.Err() == nil {
				logger.Error(err, "Writing what was seen; it is tried again", "pause", pause)
			}
		} else {
			failures = 0
			a.note(now, nil)
			if wrote || beat.IsZero() {
				beat = a.nextBeat(now)
			}
			pause = min(review, beat.Sub(now))
		}
		timer.Reset(pause)
	}
}

// write writes the report, or, where the API server does not take it, that it does not: what was
// written before is not to be taken for true.
func (a *Agent) write(ctx context.Context, report Report, beat bool) (wrote bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	wrote, err = a.writer.write(ctx, report, beat)
	if apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err) {
		wrote, _ = a.writer.write(ctx, refused(err), beat) // the first error tells more
	}
	return wrote, err
}

// nextBeat is three quarters of the heartbeat away, and up to a fifth more: a change may put it off.
func (a *Agent) nextBeat(now time.Time) time.Time {
	return now.Add(time.Duration((0.75 + 0.2*a.options.Random()) * float64(a.options.Heartbeat)))
}

// backOff doubles, up to its limit, less up to a half.
func (a *Agent) backOff(failures int) time.Duration {
	pause := retryAtMost
	if failures < 10 {
		pause = min(retryAtMost, retryAtFirst<<(failures-1))
	}
	return pause - time.Duration(a.options.Random()*float64(pause)/2)
}

func (a *Agent) note(now time.Time, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.progress, a.lastErr = now, err
	a.written = a.written || err == nil
}

// Ready is nil once the node's NodeTopology has been written. A later failure to write is none of
// the agent's: it goes on.
func (a *Agent) Ready() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.written:
		return nil
	case a.lastErr != nil:
		return fmt.Errorf("the NodeTopology is not written yet: %w", a.lastErr)
	}
	return errors.New("the node has not been looked at yet")
}

// Healthy is nil while the loop goes round.
func (a *Agent) Healthy() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if age := a.options.Now().Sub(a.progress); !a.progress.IsZero() && age > stuckAfter {
		return fmt.Errorf("nothing has been done for %v", age)
	}
	return nil
}

const (
	// writeLimit is how long all requests of a write may take, with what client-go repeats.
	writeLimit = 5 * time.Minute
	// stuckAfter is longer than any pause and any write together.
	stuckAfter = 10 * time.Minute
)

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // one is enough
	}
}
