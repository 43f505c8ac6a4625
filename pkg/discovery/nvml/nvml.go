// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package nvml answers what the NVIDIA driver knows of a node's GPUs, and reads from sysfs what it
// does not: the way to the CPU.
//
//	driver (Library) ──> inventory: GPUs, links ──> Facts.Hardware, kept while nothing changes
//	                 └─> health, every time      ──> Facts.Unhealthy
//
// Links are measured, GPU by GPU: what is at the other end of every NVLink is another GPU or a
// switch, and two GPUs with links to switches reach each other over as many as the lesser has.
//
// Only library.go, which is built with cgo, knows NVIDIA's binding; without cgo Open says so.
package nvml

// Library is what is asked of the driver's library. A call that the loaded library is too old for
// answers NotSupported.
type Library interface {
	Init() Return
	Shutdown()
	DriverVersion() (string, Return)
	DeviceCount() (int, Return)
	Device(index int) (Device, Return)
	// NextEvent waits up to a second for an error that one of the devices reports. Timeout is none;
	// NotSupported means that none of them reports any.
	NextEvent(devices []Device) (Event, Return)
}

// Device is one GPU of the driver.
type Device interface {
	UUID() (string, Return)
	Name() (string, Return)
	BusID() (string, Return)
	Minor() (int, Return)
	MemoryBytes() (uint64, Return)
	// Major is that of the compute capability: 7 for Volta, 9 for Hopper.
	Major() (int, Return)
	IsMIG() (bool, Return)
	// IsVirtual is true for a GPU that a hypervisor has made up.
	IsVirtual() (bool, Return)

	Ancestor(Device) (Ancestor, Return)
	LinkCarriesP2P(link int) (bool, Return)
	LinkState(link int) (LinkState, Return)
	// LinkUp is what older drivers know instead of LinkState.
	LinkUp(link int) (bool, Return)
	LinkRemoteBusID(link int) (string, Return)
	LinkRemoteType(link int) (RemoteType, Return)
	LinkVersion(link int) (uint32, Return)
	// LinkMBps is the rate on the wire, in MB/s per direction.
	LinkMBps() (int, Return)
	Fabric() (Fabric, Return)

	RecoveryAction() (int, Return)
	RowRemapFailed() (bool, Return)
	RetiredPagesPending() (bool, Return)
	UncorrectedErrors() (uint64, Return)
}

// Return is NVML's result of a call, by its numbers.
type Return int

// Those that are told apart.
const (
	Success          Return = 0
	InvalidArgument  Return = 2
	NotSupported     Return = 3
	NoPermission     Return = 4
	DriverNotLoaded  Return = 9
	Timeout          Return = 10
	LibraryNotFound  Return = 12
	GPUIsLost        Return = 15
	ResetRequired    Return = 16
	VersionMismatch  Return = 18
	FunctionNotFound Return = 13
)

// Ancestor is the nearest common part of two GPUs' ways to the CPU, by NVML's numbers.
type Ancestor int

// LinkState is NVML's state of a link.
type LinkState int

// A sleeping link is idle and wakes by itself: it counts as there.
const (
	LinkInactive LinkState = 0
	LinkActive   LinkState = 1
	LinkSleeping LinkState = 2
)

// RemoteType is what a link leads to.
type RemoteType int

// Those that are told apart.
const (
	RemoteGPU     RemoteType = 0
	RemoteSwitch  RemoteType = 2
	RemoteUnknown RemoteType = 255
)

// Fabric is NVML's word on the NVLink fabric.
type Fabric struct {
	ClusterUUID [16]byte
	CliqueID    uint32
	State       int
	Status      Return // meaningful once completed
}

// States of a fabric.
const (
	FabricNotSupported = 0
	FabricInProgress   = 2
	FabricCompleted    = 3
)

// Event is an error that a GPU reported by itself.
type Event struct {
	UUID string
	// Xid is the driver's number of the error; 0 for an uncorrected memory error.
	Xid uint64
}
