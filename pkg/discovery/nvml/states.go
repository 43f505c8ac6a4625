// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import "github.com/tutti-project/tutti/pkg/discovery"

// states are the results that say what is the matter with a node or a GPU: the reason, and what to
// do.
var states = map[Return]struct{ reason, message string }{
	NotSupported:     {"NotSupported", "the driver or the hardware does not support the question"},
	NoPermission:     {"NoPermission", "the device files of the driver may not be read: run with the runtime class nvidia"},
	DriverNotLoaded:  {"DriverNotLoaded", "the kernel module of the NVIDIA driver is not loaded"},
	LibraryNotFound:  {"LibraryNotFound", "libnvidia-ml.so.1 is not there: the node has no NVIDIA driver, or the container was not started with the runtime class nvidia"},
	FunctionNotFound: {"LibraryTooOld", "the driver's library lacks a function that cannot be done without: update the driver"},
	GPUIsLost:        {"GPULost", "the GPU has fallen off the bus: restart the node"},
	ResetRequired:    {"ResetRequired", "the GPU must be reset (nvidia-smi --gpu-reset) before it works again"},
	VersionMismatch:  {"DriverMismatch", "the driver's library and its kernel module are of different versions: restart the node"},
}

// isNo: the driver, or this GPU, has no such thing. Other results but Success are failures to answer.
func (r Return) isNo() bool {
	return r == NotSupported || r == InvalidArgument || r == FunctionNotFound
}

// isLost: the GPU does not answer any more.
func (r Return) isLost() bool { return r == GPUIsLost || r == ResetRequired }

func (r Return) reason() string {
	if state, ok := states[r]; ok {
		return state.reason
	}
	return "DriverError"
}

func (r Return) message() string {
	if state, ok := states[r]; ok {
		return state.message
	}
	return "the driver answers with an error that nvidia-smi may explain"
}

func (r Return) unavailable(doing string) error {
	return discovery.Unavailablef(r.reason(), "%s: %s (NVML result %d)", doing, r.message(), int(r))
}
