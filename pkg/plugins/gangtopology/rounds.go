// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// beingReady is why a gang is not planned while a round of it is not over.
const beingReady = "pods of the gang are being made ready to bind: others of it are planned when it is known what becomes of those"

// rounds are those in which gangs reach their minimum, and that are not over: nothing
// is bound yet, or members of one that was aborted have not come back. To the engine
// all of these have nodes. A gang planned beside them would lack only what they leave
// of its minimum, that would be bound at once, and run alone if one of them failed.
//
// A round is here from the moment in which its first member is at Permit, on the
// scheduling thread: one that never gets there has bound and assumed nothing. From
// Permit on the engine brings every member to PreBind or to Unreserve, so each round
// ends. The zero value is ready for use.
type rounds struct {
	mu   sync.Mutex
	open map[types.NamespacedName]*round
}

func (r *rounds) begin(of *round) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil {
		r.open = map[types.NamespacedName]*round{}
	}
	r.open[of.key] = of
}

// end tells whether the round was here.
func (r *rounds) end(of *round) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open[of.key] != of {
		return false
	}
	delete(r.open, of.key)
	return true
}

// of is the gang's round, or nil.
func (r *rounds) of(key types.NamespacedName) *round {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open[key]
}

// holdRoom tells whether what the gang lacks has nodes, and is being made ready to bind:
// nobody can take its room. Of a round that was aborted the room comes free.
func (r *rounds) holdRoom(key types.NamespacedName) bool {
	round := r.of(key)
	return round != nil && !round.isAborted()
}

// gone is called when a pod is being deleted, or is no more: a round that needs it
// cannot end well, and the others do not wait until they are all ready to learn that.
func (r *rounds) gone(pod *v1.Pod) {
	if round := r.of(gangOf(pod)); round != nil {
		round.leave(pod.UID)
	}
}
