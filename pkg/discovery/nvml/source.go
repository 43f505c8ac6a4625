// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
	"github.com/tutti-project/tutti/pkg/discovery"
)

// Source asks the driver. Hardware is read when first asked and again when the number of GPUs has
// changed, whether one is cut into instances, or which links are up, and until the driver has
// answered all questions; health is read every time.
type Source struct {
	open func() (Library, error)
	sys  fs.FS

	mu      sync.Mutex // over all below: Watch runs beside Discover
	library Library    // nil until it is loaded
	entries []entry
	links   []v1alpha1.Link
	unsure  bool                    // the driver failed to answer some question about them
	missing []v1alpha1.UnhealthyGPU // could not be opened
	count   int
	names   map[int]string                   // UUIDs by index, while the count is the same
	events  map[string]v1alpha1.UnhealthyGPU // by UUID, for as long as the process runs
	started chan struct{}                    // closed when the library is loaded
}

// New makes a source of a library and of sysfs, usually os.DirFS("/sys"). The library is opened
// when first asked, and again until it can be: a driver may come later.
func New(open func() (Library, error), sys fs.FS) *Source {
	return &Source{open: open, sys: sys, events: map[string]v1alpha1.UnhealthyGPU{}, started: make(chan struct{})}
}

// Name is "nvml".
func (s *Source) Name() string { return "nvml" }

// Discover answers with the GPUs, or with what keeps it from seeing them.
func (s *Source) Discover(context.Context) (discovery.Facts, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.load(); err != nil {
		return discovery.Facts{}, err
	}
	count, ret := s.library.DeviceCount()
	if ret != Success {
		return discovery.Facts{}, ret.unavailable("counting the GPUs")
	}
	if count == 0 {
		return discovery.Facts{}, discovery.Unavailablef("NoGPU", "the driver is loaded and finds no GPU")
	}
	if count != s.count || len(s.missing) > 0 || s.unsure || s.recut() || relinked(s.entries) {
		s.enumerate(count)
	}
	return s.facts(), nil
}

func (s *Source) load() error {
	if s.library != nil {
		return nil
	}
	library, err := s.open()
	if err != nil {
		return err
	}
	if ret := library.Init(); ret != Success {
		return ret.unavailable("loading the driver's library")
	}
	s.library = library
	close(s.started)
	return nil
}

// recut: a GPU's instances were turned on or off.
func (s *Source) recut() bool {
	return slices.ContainsFunc(s.entries, func(e entry) bool {
		mig, ret := e.device.IsMIG()
		return ret == Success && mig != e.gpu.MIG
	})
}

// enumerate reads the hardware. A GPU that cannot be opened keeps what was known of it.
func (s *Source) enumerate(count int) {
	var entries []entry
	s.missing = nil
	if count != s.count {
		s.names = map[int]string{}
	}
	for index := range count {
		var e entry
		device, ret := s.library.Device(index)
		if ret == Success {
			e, ret = inspect(s.sys, device, index)
		}
		if e.gpu.UUID != "" {
			s.names[index] = e.gpu.UUID
		}
		if ret == Success {
			entries = append(entries, e)
			continue
		}
		s.missing = append(s.missing, v1alpha1.UnhealthyGPU{UUID: cmp.Or(s.names[index], fmt.Sprintf("index-%d", index)), Reason: ret.reason(),
			Message: fmt.Sprintf("GPU %d: %s (NVML result %d)", index, ret.message(), int(ret))})
	}
	measure(s.sys, entries)
	links, sure := links(entries)
	s.unsure = !sure || slices.ContainsFunc(entries, func(e entry) bool { return e.ends.unsure })
	s.entries, s.links, s.count = entries, links, count
}

func (s *Source) facts() discovery.Facts {
	facts := discovery.Facts{
		Hardware:  &v1alpha1.NodeTopologySpec{Links: slices.Clone(s.links), Fabric: fabric(s.entries)},
		Unhealthy: slices.Clone(s.missing),
		Minors:    map[string]int{},
	}
	for _, e := range s.entries {
		facts.Hardware.GPUs = append(facts.Hardware.GPUs, e.gpu)
		if e.minor >= 0 {
			facts.Minors[e.gpu.UUID] = e.minor
		}
		if ill, reported := s.events[e.gpu.UUID]; reported {
			facts.Unhealthy = append(facts.Unhealthy, ill)
		} else if ill := ailment(e); ill != nil {
			facts.Unhealthy = append(facts.Unhealthy, *ill)
		}
	}
	return facts
}

// listenAgain is the pause before errors are waited for again when that has failed: one GPU that is
// lost fails it for all. Polling still sees what the driver remembers.
const listenAgain = 10 * time.Second

// Watch waits for errors that GPUs report by themselves.
func (s *Source) Watch(ctx context.Context, changed func()) {
	select {
	case <-s.started:
	case <-ctx.Done():
		return
	}
	for ctx.Err() == nil {
		event, ret := s.library.NextEvent(s.devices())
		switch ret {
		case Timeout:
		case Success:
			if ill := eventAilment(event); ill != nil && s.note(*ill) {
				changed()
			}
		default:
			select {
			case <-ctx.Done():
			case <-time.After(listenAgain):
			}
		}
	}
}

func (s *Source) devices() []Device {
	s.mu.Lock()
	defer s.mu.Unlock()
	var devices []Device
	for _, e := range s.entries {
		devices = append(devices, e.device)
	}
	return devices
}

// note keeps the first error of a GPU and tells whether this is it: others may follow in their thousands.
func (s *Source) note(ill v1alpha1.UnhealthyGPU) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.events[ill.UUID]; known {
		return false
	}
	s.events[ill.UUID] = ill
	return true
}

// DriverVersion is the loaded driver's, or empty.
func (s *Source) DriverVersion() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.library == nil {
		return ""
	}
	version, ret := s.library.DriverVersion()
	if ret != Success {
		return ""
	}
	return version
}
