// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

// set hands series to Prometheus' engine, one after the other.
type set struct {
	series []storage.Series
	next   int
}

func (s *set) Next() bool {
	s.next++
	return s.next <= len(s.series)
}

func (s *set) At() storage.Series                { return s.series[s.next-1] }
func (s *set) Err() error                        { return nil }
func (s *set) Warnings() annotations.Annotations { return nil }
