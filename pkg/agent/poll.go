// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/klog/v2"

	"github.com/tutti-project/tutti/pkg/discovery"
)

const (
	// soonest is the pause after a change: changes come in groups.
	soonest = time.Second
	// failedAtMost is the longest pause between questions to a source that fails.
	failedAtMost = time.Minute
	// grace is how long what a source saw outlives its ability to see: a kubelet that restarts
	// makes no node unknown.
	grace = 30 * time.Second
	// silence is how long a source may take to answer before it counts as failed.
	silence = time.Minute
)

// sighting is what a source answered last.
type sighting struct {
	source   string
	facts    discovery.Facts
	err      error     // of the last answer
	seenAt   time.Time // of the last answer that was no error; zero for none
	asOf     time.Time // when that was asked for
	asked    time.Time // since when an answer is awaited; zero for not at all
	answered bool      // at least once
}

// poll asks a source for ever: soon after a change, and then less and less often.
func (a *Agent) poll(ctx context.Context, i int, kick <-chan struct{}) {
	poll := a.options.Polls[i]
	pause := soonest
	var failing time.Time // since when; zero for not
	for ctx.Err() == nil {
		a.ask(i)
		facts, err := answerOf(ctx, poll.Source)
		if ctx.Err() != nil {
			return
		}
		if a.see(ctx, i, facts, err) {
			pause = soonest
			signal(a.changed)
		} else {
			pause *= 2
		}
		limit, now := poll.Every, a.options.Now()
		switch {
		case err == nil:
			failing = time.Time{}
		case failing.IsZero():
			failing = now
		}
		if err != nil {
			limit = min(limit, failedAtMost)
			if now.Sub(failing) > grace { // until then it is to be back in time
				limit = failedAtMost
			}
		}
		pause = min(pause, limit)
		select {
		case <-ctx.Done():
		case <-kick:
		case <-time.After(pause - time.Duration(a.options.Random()*float64(pause)/10)):
		}
	}
}

func (a *Agent) ask(i int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen[i].asked = a.options.Now()
}

// see keeps an answer and tells whether it is another than before.
func (a *Agent) see(ctx context.Context, i int, facts discovery.Facts, err error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	before, now := a.seen[i], a.options.Now()
	after := sighting{source: before.source, facts: facts, err: err, seenAt: now, asOf: before.asked, answered: true}
	if err != nil {
		after.facts, after.seenAt, after.asOf = before.facts, before.seenAt, before.asOf
		sourceUp.WithLabelValues(before.source).Set(0)
	} else {
		sourceUp.WithLabelValues(before.source).Set(1)
	}
	a.seen[i] = after
	if (err == nil) != (before.err == nil) || !before.answered || err != nil && err.Error() != before.err.Error() {
		if err != nil {
			klog.FromContext(ctx).Info("A source cannot see", "source", before.source, "why", err.Error())
		} else {
			klog.FromContext(ctx).V(2).Info("A source sees", "source", before.source)
		}
		return true
	}
	return !equality.Semantic.DeepEqual(before.facts, after.facts)
}

// report is made of all that was seen. It is not ready while a source has never answered, unless
// that takes too long.
func (a *Agent) report(start, now time.Time) (Report, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var answers []Answer
	var asOf time.Time
	for _, s := range a.seen {
		waiting := !s.asked.IsZero()
		if !s.answered && now.Sub(start) < settle {
			return Report{}, false
		}
		answer := Answer{Source: s.source, Facts: s.facts, Err: s.err}
		if waiting && (!s.answered || now.Sub(s.asked) > silence) {
			answer.Err = discovery.Unavailablef("NoAnswer", "%s does not answer", s.source)
			sourceUp.WithLabelValues(s.source).Set(0)
		}
		switch {
		case answer.Err == nil:
		case !s.seenAt.IsZero() && now.Sub(s.seenAt) < grace:
			answer.Err = nil
		default:
			answer.Facts = discovery.Facts{}
		}
		if answer.Facts.Devices != nil && asOf.IsZero() { // of two that saw them the first counts
			asOf = s.asOf
		}
		answers = append(answers, answer)
	}
	report := ReportOf(answers)
	report.AsOf = asOf
	return report, true
}

// answerOf waits for the answer no longer than ctx lasts: a driver that hangs cannot be told to end.
func answerOf(ctx context.Context, source discovery.Source) (discovery.Facts, error) {
	answers := make(chan Answer, 1)
	go func() {
		facts, err := source.Discover(ctx)
		answers <- Answer{Facts: facts, Err: err}
	}()
	select {
	case answer := <-answers:
		return answer.Facts, answer.Err
	case <-ctx.Done():
		return discovery.Facts{}, discovery.Unavailablef("NoAnswer", "%s does not answer", source.Name())
	}
}

// until returns when work does, or ctx ends.
func until(ctx context.Context, work func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		work()
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}
