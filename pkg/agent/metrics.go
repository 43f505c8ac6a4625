// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var (
	sourceUp = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           "tutti_agent_source_up",
		Help:           "1 while a source of facts can see, 0 while it cannot.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"source"})
	gpuCount = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           "tutti_agent_gpus",
		Help:           "GPUs of the node as last written, by state (all, free, unhealthy).",
		StabilityLevel: metrics.ALPHA,
	}, []string{"state"})
	writes = metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "tutti_agent_writes_total",
		Help:           "Writes to the API server, by what was written (spec, status, label) and result (success, failure).",
		StabilityLevel: metrics.ALPHA,
	}, []string{"what", "result"})
	lastWrite = metrics.NewGauge(&metrics.GaugeOpts{
		Name:           "tutti_agent_last_write_timestamp_seconds",
		Help:           "When the status was last written, as Unix time in seconds.",
		StabilityLevel: metrics.ALPHA,
	})
)

var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(sourceUp, gpuCount, writes, lastWrite)
})

func countWrite(what string, err error) error {
	result := "success"
	if err != nil {
		result = "failure"
	}
	writes.WithLabelValues(what, result).Inc()
	return err
}
