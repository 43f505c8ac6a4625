// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestRoomIsHeldForAGangThatMoves, though nothing of it runs, until it is placed or
// its time is over; also where one of its pods has stood.
func TestRoomIsHeldForAGangThatMoves(t *testing.T) {
	old := lostMember("p", "n")
	for name, tc := range map[string]struct {
		after time.Duration
		whole bool
		want  int64
	}{
		"while its pods end":        {30 * time.Second, false, 5},
		"for a while after that":    {30*time.Second + keepFor, false, 5},
		"not for ever":              {31*time.Second + keepFor, false, 8},
		"until the gang is placed":  {0, true, 8},
		"and from the first moment": {0, false, 5},
	} {
		t.Run(name, func(t *testing.T) {
			r, clock, problem := roomScene()
			r.torn = func(types.NamespacedName) bool { return false }
			r.runs(old)
			r.reserve(map[*v1.Pod]string{old: "n"})
			r.lose(old)
			clock.Step(tc.after)
			if tc.whole {
				r.whole(theGang)
			}
			if got := free(r, problem, 5, nobody); got != tc.want {
				t.Errorf("%d GPUs are free for others, want %d", got, tc.want)
			}
			if got := free(r, problem, 5, func(*v1.Pod) bool { return true }); got != 8 {
				t.Errorf("%d GPUs are free for the gang, want 8", got)
			}
		})
	}
}

// TestRefusedGangInPartIsLookedAtWhenItMayMove and not only when something changes.
func TestRefusedGangInPartIsLookedAtWhenItMayMove(t *testing.T) {
	handle := newFakeHandle(2)
	p := newPlugin(t, handle, nil)
	p.gate.refuse(theGang, needs{partly: true, again: 3 * time.Second})
	if wait := p.gate.gangs[theGang].due.Sub(p.gate.clock.Now()); wait > 3*time.Second {
		t.Errorf("it is looked at in %s, want in three seconds", wait)
	}
}
