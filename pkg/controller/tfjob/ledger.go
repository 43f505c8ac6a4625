// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// ledgerTerm is how long a request counts as done without having been seen in a cache. It only has to be longer than caches lag;
// an entry that outlives its object (a pod that came and went between two relists) is settled by it.
const ledgerTerm = 5 * time.Minute

// ledger remembers, per job, what the API server was asked for and the caches do not show yet. Without it a reconcile that runs
// ahead of the caches would ask again for everything; it saves calls and events, and nothing is wrong when it is lost.
//
// An entry is made before the call and struck when the call fails or when an informer shows its effect. Readers take it before they
// read the caches: what has been struck by then is in the caches already.
type ledger struct {
	mu   sync.Mutex
	jobs map[types.UID]map[entry]time.Time
	// succeeded pods that are gone, by name.
	succeeded map[types.UID]map[string]bool
	// told are the UIDs of objects that a job has been told about.
	told map[types.UID]map[types.UID]bool
}

// entry is one request: the creation of a name, or the deletion of a UID.
type entry struct {
	kind string
	name string
	gone types.UID
}

func creation(kind, name string) entry             { return entry{kind: kind, name: name} }
func deletion(kind string, object types.UID) entry { return entry{kind: kind, gone: object} }

func newLedger() *ledger {
	return &ledger{
		jobs:      map[types.UID]map[entry]time.Time{},
		succeeded: map[types.UID]map[string]bool{},
		told:      map[types.UID]map[types.UID]bool{},
	}
}

func (l *ledger) enter(job types.UID, e entry, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.jobs[job] == nil {
		l.jobs[job] = map[entry]time.Time{}
	}
	l.jobs[job][e] = now
}

func (l *ledger) strike(job types.UID, e entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.jobs[job], e)
	if len(l.jobs[job]) == 0 {
		delete(l.jobs, job)
	}
}

// open lists what a job still waits to see, and forgets what it has waited for too long.
func (l *ledger) open(job types.UID, now time.Time) map[entry]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	open := make(map[entry]bool, len(l.jobs[job]))
	for e, since := range l.jobs[job] {
		if now.Sub(since) >= ledgerTerm {
			delete(l.jobs[job], e)
			continue
		}
		open[e] = true
	}
	return open
}

// witness notes that a pod was gone when it had succeeded. Pods of finished work are what cluster autoscalers and pod collectors delete
// first.
func (l *ledger) witness(job types.UID, pod string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.succeeded[job] == nil {
		l.succeeded[job] = map[string]bool{}
	}
	l.succeeded[job][pod] = true
}

func (l *ledger) departed(job types.UID) map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.succeeded[job])
}

// tell tells whether a job has not been told about an object, and notes that it is now.
func (l *ledger) tell(job, object types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.told[job][object] {
		return false
	}
	if l.told[job] == nil {
		l.told[job] = map[types.UID]bool{}
	}
	l.told[job][object] = true
	return true
}

// close forgets a job that is gone.
func (l *ledger) close(job types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.jobs, job)
	delete(l.succeeded, job)
	delete(l.told, job)
}
