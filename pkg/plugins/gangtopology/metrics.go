// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"strings"
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// What the plugin counts. docs/metrics.md explains each; a label takes a handful
// of values, and none of them names an object.
var (
	planSeconds = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Name:           "tutti_plan_duration_seconds",
		Help:           "How long one attempt to plan a gang took, its check by all filters included and evictions not, by whether there was a place.",
		Buckets:        metrics.ExponentialBuckets(0.0005, 2, 16),
		StabilityLevel: metrics.ALPHA,
	}, []string{"profile", "result"})

	attempts = metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "tutti_gang_attempts_total",
		Help:           "Attempts to place a gang, by what came of them.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"profile", "outcome"})

	waitSeconds = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Name:           "tutti_gang_wait_seconds",
		Help:           "How long a gang waited from the moment when its quorum existed until it was placed, by the number of its pods. Counted from the scheduler's start at the earliest.",
		Buckets:        metrics.ExponentialBuckets(0.05, 3, 14),
		StabilityLevel: metrics.ALPHA,
	}, []string{"profile", "pods"})

	gangLevels = metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "tutti_gang_level_total",
		Help:           "Gangs that began, by the narrowest level of which one domain holds all their pods, and by the narrowest of which one would if the cluster were empty.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"profile", "level", "best"})

	gangDomains = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Name:           "tutti_gang_domains",
		Help:           "Over how many domains of each level the pods of a gang that began are spread.",
		Buckets:        []float64{1, 2, 3, 4, 6, 8, 16, 32, 64, 128},
		StabilityLevel: metrics.ALPHA,
	}, []string{"profile", "level"})

	conflicts = metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "tutti_node_conflicts_total",
		Help:           "Conflicts with other schedulers for which a node was avoided for a while, by how they showed (rejected, overcommitted).",
		StabilityLevel: metrics.ALPHA,
	}, []string{"profile", "kind"})

	evictedPods = metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "tutti_evicted_pods_total",
		Help:           "Pods that the scheduler decided to evict, by who needed the room (gang, pod, or release: nobody, the gang cannot be bound whole) and what they were (gang, spare, pod).",
		StabilityLevel: metrics.ALPHA,
	}, []string{"preemptor", "victim"})

	linkPromises = metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "tutti_link_promises_total",
		Help:           "Pods that were promised links between their GPUs, by what the kubelet then gave them, as the node's agent says (kept, broken).",
		StabilityLevel: metrics.ALPHA,
	}, []string{"result"})
)

var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(planSeconds, attempts, waitSeconds, gangLevels, gangDomains, conflicts, evictedPods, linkPromises)
	legacyregistry.CustomMustRegister(scraped)
	// At zero from the start: what appears with its first event has no increase at that time.
	for _, result := range []string{promiseKept, promiseBroken} {
		linkPromises.WithLabelValues(result)
	}
	for _, preemptor := range []string{"gang", "pod", "release"} {
		for _, victim := range []string{"gang", "spare", "pod"} {
			evictedPods.WithLabelValues(preemptor, victim)
		}
	}
})

// outcome of an attempt.
type outcome string

const (
	outcomePlaced     outcome = "placed"
	outcomeNoRoom     outcome = "no_room"
	outcomePreempting outcome = "preempting"
	outcomeNoExtras   outcome = "no_room_for_extras"
	outcomeInvalid    outcome = "invalid"
	outcomeTogether   outcome = "filters_together"
	outcomeTorn       outcome = "waits_for_torn_gang"
	outcomeNotQueued  outcome = "not_queued_yet"
	outcomeNotOver    outcome = "waits_for_its_own_pods"
	outcomeAborted    outcome = "aborted_before_binding"
	outcomeUnbound    outcome = "binding_failed"
	outcomeReleased   outcome = "released"
)

var outcomes = []outcome{
	outcomePlaced, outcomeNoRoom, outcomePreempting, outcomeNoExtras, outcomeInvalid, outcomeTogether,
	outcomeTorn, outcomeNotQueued, outcomeNotOver, outcomeAborted, outcomeUnbound, outcomeReleased,
}

// sizeClasses of a gang, by the most pods that each takes.
var sizeClasses = []struct {
	most int
	name string
}{{1, "1"}, {8, "2-8"}, {64, "9-64"}, {512, "65-512"}}

func sizeClassOf(pods int) string {
	for _, class := range sizeClasses {
		if pods <= class.most {
			return class.name
		}
	}
	return "513-"
}

func count(o order) {
	preemptor, _, _ := strings.Cut(o.preemptor, " ")
	for _, unit := range o.units {
		victim := "gang"
		switch {
		case unit.Gang.Name == "":
			victim = "pod"
		case unit.Spare:
			victim = "spare"
		}
		evictedPods.WithLabelValues(preemptor, victim).Add(float64(len(unit.Pods)))
	}
}
