// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"strings"
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var evictedPods = metrics.NewCounterVec(&metrics.CounterOpts{
	Name:           "tutti_evicted_pods_total",
	Help:           "Pods that the scheduler decided to evict, by who needed the room (gang, pod) and what they were (gang, spare, pod).",
	StabilityLevel: metrics.ALPHA,
}, []string{"preemptor", "victim"})

var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(evictedPods) })

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
