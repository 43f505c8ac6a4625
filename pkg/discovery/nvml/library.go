// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvml

import (
	"encoding/binary"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// CanAsk tells whether this program was built with the way to the driver.
const CanAsk = true

// Open names the driver's library; empty means libnvidia-ml.so.1, wherever the loader finds it.
// Whether it is there, Init tells.
func Open(path string) (Library, error) {
	var options []nvml.LibraryOption
	if path != "" {
		options = append(options, nvml.WithLibraryPath(path))
	}
	return &library{nvml: nvml.New(options...)}, nil
}

// library asks NVIDIA's binding. To call a function that the loaded library lacks ends the process,
// so each that came after driver 418 is looked up first.
type library struct {
	nvml   nvml.Interface
	events nvml.EventSet
}

func (l *library) has(symbol string) bool { return l.nvml.Extensions().LookupSymbol(symbol) == nil }

func (l *library) Init() Return { return Return(l.nvml.Init()) }

func (l *library) Shutdown() { _ = l.nvml.Shutdown() }

func (l *library) DriverVersion() (string, Return) {
	version, ret := l.nvml.SystemGetDriverVersion()
	return version, Return(ret)
}

func (l *library) DeviceCount() (int, Return) {
	count, ret := l.nvml.DeviceGetCount()
	return count, Return(ret)
}

func (l *library) Device(index int) (Device, Return) {
	d, ret := l.nvml.DeviceGetHandleByIndex(index)
	return &device{d, l}, Return(ret)
}

const (
	eventWaitMS = 1000
	eventTypes  = nvml.EventTypeXidCriticalError | nvml.EventTypeDoubleBitEccError
)

func (l *library) NextEvent(devices []Device) (Event, Return) {
	if l.events == nil {
		if ret := l.register(devices); ret != nvml.SUCCESS {
			return Event{}, Return(ret)
		}
	}
	data, ret := l.events.Wait(eventWaitMS)
	if ret != nvml.SUCCESS || data.Device == nil {
		return Event{}, Return(ret)
	}
	uuid, _ := data.Device.GetUUID() // empty for one that is gone, which polling sees
	event := Event{UUID: uuid}
	if data.EventType == nvml.EventTypeXidCriticalError {
		event.Xid = data.EventData
	}
	return event, Success
}

// register asks for the events that each device has.
func (l *library) register(devices []Device) nvml.Return {
	events, ret := l.nvml.EventSetCreate()
	if ret != nvml.SUCCESS {
		return ret
	}
	registered := nvml.ERROR_NOT_SUPPORTED
	for _, d := range devices {
		own, ok := d.(*device)
		if !ok {
			continue
		}
		supported, ret := own.nvml.GetSupportedEventTypes()
		if ret == nvml.SUCCESS && supported&eventTypes != 0 && own.nvml.RegisterEvents(supported&eventTypes, events) == nvml.SUCCESS {
			registered = nvml.SUCCESS
		}
	}
	if registered == nvml.SUCCESS {
		l.events = events
	} else {
		_ = events.Free()
	}
	return registered
}

type device struct {
	nvml    nvml.Device
	library *library
}

func (d *device) UUID() (string, Return) {
	uuid, ret := d.nvml.GetUUID()
	return uuid, Return(ret)
}

func (d *device) Name() (string, Return) {
	name, ret := d.nvml.GetName()
	return name, Return(ret)
}

func (d *device) BusID() (string, Return) {
	info, ret := d.nvml.GetPciInfo()
	return text(info.BusId[:]), Return(ret)
}

// text is a string of C.
func text(chars []int8) string {
	var bytes []byte
	for _, c := range chars {
		if c == 0 {
			break
		}
		bytes = append(bytes, byte(c))
	}
	return string(bytes)
}

func (d *device) Minor() (int, Return) {
	minor, ret := d.nvml.GetMinorNumber()
	return minor, Return(ret)
}

func (d *device) MemoryBytes() (uint64, Return) {
	memory, ret := d.nvml.GetMemoryInfo()
	return memory.Total, Return(ret)
}

func (d *device) Major() (int, Return) {
	major, _, ret := d.nvml.GetCudaComputeCapability()
	return major, Return(ret)
}

func (d *device) IsMIG() (bool, Return) {
	if !d.library.has("nvmlDeviceGetMigMode") {
		return false, NotSupported
	}
	current, _, ret := d.nvml.GetMigMode()
	return current == nvml.DEVICE_MIG_ENABLE, Return(ret)
}

func (d *device) IsVirtual() (bool, Return) {
	if !d.library.has("nvmlDeviceGetVirtualizationMode") {
		return false, NotSupported
	}
	mode, ret := d.nvml.GetVirtualizationMode()
	return mode == nvml.GPU_VIRTUALIZATION_MODE_VGPU, Return(ret)
}

func (d *device) Ancestor(other Device) (Ancestor, Return) {
	own, ok := other.(*device)
	if !ok {
		return 0, InvalidArgument
	}
	level, ret := d.nvml.GetTopologyCommonAncestor(own.nvml)
	return Ancestor(level), Return(ret)
}

func (d *device) LinkCarriesP2P(link int) (bool, Return) {
	can, ret := d.nvml.GetNvLinkCapability(link, nvml.NVLINK_CAP_P2P_SUPPORTED)
	return can != 0, Return(ret)
}

func (d *device) LinkState(link int) (LinkState, Return) {
	value, ret := d.field(nvml.FI_DEV_NVLINK_GET_STATE, uint32(link))
	return LinkState(value), ret
}

func (d *device) LinkUp(link int) (bool, Return) {
	state, ret := d.nvml.GetNvLinkState(link)
	return state == nvml.FEATURE_ENABLED, Return(ret)
}

func (d *device) LinkRemoteBusID(link int) (string, Return) {
	info, ret := d.nvml.GetNvLinkRemotePciInfo(link)
	return text(info.BusId[:]), Return(ret)
}

func (d *device) LinkRemoteType(link int) (RemoteType, Return) {
	if !d.library.has("nvmlDeviceGetNvLinkRemoteDeviceType") {
		return RemoteUnknown, NotSupported
	}
	kind, ret := d.nvml.GetNvLinkRemoteDeviceType(link)
	return RemoteType(kind), Return(ret)
}

func (d *device) LinkVersion(link int) (uint32, Return) {
	version, ret := d.nvml.GetNvLinkVersion(link)
	return version, Return(ret)
}

func (d *device) LinkMBps() (int, Return) {
	value, ret := d.field(nvml.FI_DEV_NVLINK_SPEED_MBPS_COMMON, 0)
	return value, ret
}

func (d *device) Fabric() (Fabric, Return) {
	if !d.library.has("nvmlDeviceGetGpuFabricInfo") {
		return Fabric{}, NotSupported
	}
	info, ret := d.nvml.GetGpuFabricInfo()
	f := Fabric{CliqueID: info.CliqueId, State: int(info.State), Status: Return(info.Status)}
	copy(f.ClusterUUID[:], info.ClusterUuid[:])
	return f, Return(ret)
}

func (d *device) RecoveryAction() (int, Return) {
	return d.field(nvml.FI_DEV_GET_GPU_RECOVERY_ACTION, 0)
}

func (d *device) RowRemapFailed() (bool, Return) {
	if !d.library.has("nvmlDeviceGetRemappedRows") {
		return false, NotSupported
	}
	_, _, _, failed, ret := d.nvml.GetRemappedRows()
	return failed, Return(ret)
}

func (d *device) RetiredPagesPending() (bool, Return) {
	pending, ret := d.nvml.GetRetiredPagesPendingStatus()
	return pending == nvml.FEATURE_ENABLED, Return(ret)
}

func (d *device) UncorrectedErrors() (uint64, Return) {
	n, ret := d.nvml.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC)
	return n, Return(ret)
}

// field asks for one of the values that have a number instead of a function. Those that the driver
// does not know it answers with an error of their own.
func (d *device) field(id, scope uint32) (int, Return) {
	if !d.library.has("nvmlDeviceGetFieldValues") {
		return 0, NotSupported
	}
	values := []nvml.FieldValue{{FieldId: id, ScopeId: scope}}
	if ret := d.nvml.GetFieldValues(values); ret != nvml.SUCCESS {
		return 0, Return(ret)
	}
	if ret := Return(values[0].NvmlReturn); ret != Success {
		return 0, ret
	}
	return int(binary.LittleEndian.Uint32(values[0].Value[:])), Success
}
