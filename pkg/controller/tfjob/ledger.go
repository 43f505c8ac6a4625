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
	// asked are the UIDs of what the controller itself has deleted and not seen gone.
	asked map[types.UID]map[types.UID]bool
	// present are the UIDs of pods that were found where the job wants them, and not told to go; they stay until they are gone. gone are
	// pods that are, by name.
	present map[types.UID]map[types.UID]bool
	gone    map[types.UID]map[string]departure
	// toldToGo is since when pods go, by UID.
	toldToGo map[types.UID]map[types.UID]time.Time
	// refused is what the API server will not have of a job, as its specification is.
	refused map[types.UID]refusal
	// told is what a job has been told about.
	told map[types.UID]map[string]bool
}

// refusal is the API server's word on an object that was made from a job's specification: invalid.
type refusal struct {
	generation int64
	message    string
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
		jobs:    map[types.UID]map[entry]time.Time{},
		asked:   map[types.UID]map[types.UID]bool{},
		present: map[types.UID]map[types.UID]bool{},
		gone:    map[types.UID]map[string]departure{},

		toldToGo: map[types.UID]map[types.UID]time.Time{},

		refused: map[types.UID]refusal{},
		told:    map[types.UID]map[string]bool{},
	}
}

func (l *ledger) enter(job types.UID, e entry, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	put(l.jobs, job, e, now)
	if e.gone != "" {
		put(l.asked, job, e.gone, true)
	}
}

func (l *ledger) strike(job types.UID, e entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	drop(l.jobs, job, e)
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

// tell tells whether a job has not been told about something, and notes that it is now.
func (l *ledger) tell(job types.UID, what string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.told[job][what] {
		return false
	}
	put(l.told, job, what, true)
	return true
}

func (l *ledger) toldOf(job types.UID) map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.told[job])
}

func (l *ledger) refuse(job types.UID, generation int64, message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused[job] = refusal{generation, message}
}

// refusal is what was refused of a job in this generation, or empty.
func (l *ledger) refusal(job types.UID, generation int64) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.refused[job]; r.generation == generation {
		return r.message
	}
	return ""
}

func put[K comparable, V any](jobs map[types.UID]map[K]V, job types.UID, key K, value V) {
	if jobs[job] == nil {
		jobs[job] = map[K]V{}
	}
	jobs[job][key] = value
}

func drop[K comparable, V any](jobs map[types.UID]map[K]V, job types.UID, key K) {
	delete(jobs[job], key)
	if len(jobs[job]) == 0 {
		delete(jobs, job)
	}
}

// close forgets a job that is gone.
func (l *ledger) close(job types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.jobs, job)
	delete(l.asked, job)
	delete(l.present, job)
	delete(l.toldToGo, job)
	delete(l.gone, job)
	delete(l.told, job)
	delete(l.refused, job)
}
