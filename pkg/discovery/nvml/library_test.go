// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvml

import (
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
)

// TestEventsAreRegisteredForAnew after a failure, which a lost GPU causes for all, and for other devices.
func TestEventsAreRegisteredForAnew(t *testing.T) {
	waits, sets, freed, registered := nvml.SUCCESS, 0, 0, 0
	extensions := &mock.ExtendedInterface{LookupSymbolFunc: func(string) error { return nil }}
	newDevice := func(uuid string) Device {
		return &device{nvml: &mock.Device{
			GetUUIDFunc:                func() (string, nvml.Return) { return uuid, nvml.SUCCESS },
			GetSupportedEventTypesFunc: func() (uint64, nvml.Return) { return nvml.EventTypeXidCriticalError, nvml.SUCCESS },
			RegisterEventsFunc:         func(uint64, nvml.EventSet) nvml.Return { registered++; return nvml.SUCCESS },
		}}
	}
	one, two := newDevice("GPU-1"), newDevice("GPU-2")
	set := &mock.EventSet{
		WaitFunc: func(uint32) (nvml.EventData, nvml.Return) {
			return nvml.EventData{Device: two.(*device).nvml, EventType: nvml.EventTypeXidCriticalError, EventData: 79}, waits
		},
		FreeFunc: func() nvml.Return { freed++; return nvml.SUCCESS },
	}
	l := &library{nvml: &mock.Interface{
		ExtensionsFunc:     func() nvml.ExtendedInterface { return extensions },
		EventSetCreateFunc: func() (nvml.EventSet, nvml.Return) { sets++; return set, nvml.SUCCESS },
	}}
	for i, step := range []struct {
		devices                 []Device
		waits                   nvml.Return
		sets, freed, registered int
	}{
		{nil, nvml.SUCCESS, 1, 1, 0}, // none yet
		{[]Device{one, two}, nvml.SUCCESS, 2, 1, 2},
		{[]Device{&device{nvml: one.(*device).nvml}, two}, nvml.SUCCESS, 2, 1, 2}, // read again
		{[]Device{one, two}, nvml.ERROR_TIMEOUT, 2, 1, 2},
		{[]Device{one, two}, nvml.ERROR_GPU_IS_LOST, 2, 2, 2},
		{[]Device{two}, nvml.SUCCESS, 3, 2, 3},
		{[]Device{one, two}, nvml.SUCCESS, 4, 3, 5},
	} {
		waits = step.waits
		event, ret := l.NextEvent(step.devices)
		if sets != step.sets || freed != step.freed || registered != step.registered {
			t.Errorf("step %d: %d sets, %d freed, %d devices registered; want %d, %d and %d", i, sets, freed, registered, step.sets, step.freed, step.registered)
		}
		if want := (Event{UUID: "GPU-2", Xid: 79}); ret == Success && event != want || ret != Success && i > 0 && ret != Return(step.waits) {
			t.Errorf("step %d: event %+v, result %d", i, event, ret)
		}
	}
}
