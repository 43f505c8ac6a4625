// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package why answers why a job, a gang or a pod waits, and what would help. It
// looks at a snapshot for what the scheduler never sees (a job that is
// suspended, pods that do not exist, a gate, another scheduler), and asks the
// scheduler itself, on that snapshot, for the rest.
package why

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-project/tutti/pkg/snapshot"
	"github.com/tutti-project/tutti/pkg/whatif"
)

// Facts are what an answer is made from.
type Facts struct {
	Snapshot *snapshot.Snapshot
	// Warnings are the texts of the subject's warning events, the newest first.
	Warnings []string
	// Renewed is when the scheduler last renewed its lease; nil if unknown, zero
	// if there is no lease.
	Renewed *time.Time
	Now     time.Time
	// Schedulers are the profiles that place gangs.
	Schedulers []string
	// Run asks the scheduler.
	Run func(s *snapshot.Snapshot, target whatif.Target, preempt bool) (*whatif.Outcome, error)
}

// Subject is what is asked about.
type Subject struct {
	Kind string // TFJob, PodGroup or Pod
	Name types.NamespacedName
}

func (s Subject) String() string {
	return fmt.Sprintf("%s %s", map[string]string{"TFJob": "tfjob", "PodGroup": "podgroup", "Pod": "pod"}[s.Kind], s.Name)
}

// Answer is for people; each text is a sentence or clause.
type Answer struct {
	Subject string
	// State is one of the words below.
	State State
	// Because are the reasons, the first one first to be mended.
	Because []string
	// Help is what would let it start.
	Help []string `json:",omitempty"`
	// Outcome is the scheduler's decision on the snapshot, if it was asked.
	Outcome *whatif.Outcome `json:",omitempty"`
}

// State is how it stands with a subject.
type State string

// States.
const (
	Waits    State = "waits"
	Starts   State = "starts" // has its nodes, but not all containers run
	Runs     State = "runs"
	Finished State = "has finished"
	Failed   State = "has failed"
)

// Find tells what a name means: a job first, then a group, then a pod.
func Find(s *snapshot.Snapshot, kinds []string, key types.NamespacedName) (Subject, error) {
	for _, kind := range kinds {
		if find(s, kind, key) != nil {
			return Subject{Kind: kind, Name: key}, nil
		}
	}
	return Subject{}, fmt.Errorf("there is no %s %s in namespace %s", alternatives(kinds), key.Name, key.Namespace)
}

func alternatives(kinds []string) string {
	last := len(kinds) - 1
	if last == 0 {
		return kinds[0]
	}
	return strings.Join(kinds[:last], ", ") + " or " + kinds[last]
}

func find(s *snapshot.Snapshot, kind string, key types.NamespacedName) *unstructured.Unstructured {
	for _, o := range s.Of(kind) {
		if snapshot.KeyOf(o) == key {
			return o
		}
	}
	return nil
}

// Explain answers. It fails only if the scheduler could not be asked.
func Explain(f Facts, subject Subject) (*Answer, error) {
	answer := &Answer{Subject: subject.String()}
	gang := subject.Name
	switch subject.Kind {
	case "TFJob":
		if state, because := ofJob(f, subject.Name); state != "" {
			answer.State, answer.Because = state, because
			return answer, nil
		}
	case "Pod":
		pod := find(f.Snapshot, "Pod", subject.Name)
		if snapshot.HasEnded(pod) {
			answer.State, answer.Because = ofEnded(pod)
			return answer, nil
		}
		if gang = snapshot.GangOf(pod); gang.Name == "" {
			return f.explainPod(answer, pod)
		}
	}
	return f.explainGang(answer, gang)
}
