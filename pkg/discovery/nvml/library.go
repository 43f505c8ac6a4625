// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvml

import (
	"encoding/binary"
	"slices"
	"sync"

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
// so each is looked up first.
type library struct {
	nvml    nvml.Interface
	events  nvml.EventSet // nil while none is waited for
	watched []Device      // by it

	mu    sync.Mutex
	found map[string]bool // symbols looked up
}

// negotiated are the functions of which the binding takes the newest version that the library has.
var negotiated = []string{
	"nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetPciInfo", "nvmlDeviceGetNvLinkRemotePciInfo", "nvmlEventSetWait",
}

// has tells whether the loaded library has a function, of these in any version.
func (l *library) has(symbol string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	found, looked := l.found[symbol]
	if !looked {
		found = l.nvml.Extensions().LookupSymbol(symbol) == nil
		if slices.Contains(negotiated, symbol) {
			found = found || l.nvml.Extensions().LookupSymbol(symbol+"_v2") == nil || l.nvml.Extensions().LookupSymbol(symbol+"_v3") == nil
		}
		if l.found == nil {
			l.found = map[string]bool{}
		}
		l.found[symbol] = found
	}
	return found
}

// required are the functions without which no GPU can be named.
var required = []string{
	"nvmlSystemGetDriverVersion", "nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetUUID", "nvmlDeviceGetName",
}

func (l *library) Init() Return {
	ret := l.nvml.Init()
	if ret != nvml.SUCCESS {
		return Return(ret)
	}
	for _, symbol := range required {
		if !l.has(symbol) {
			return FunctionNotFound
		}
	}
	return Success
}

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
	if l.events != nil && !slices.EqualFunc(l.watched, devices, sameDevice) {
		l.unregister()
	}
	if l.events == nil {
		if ret := l.register(devices); ret != nvml.SUCCESS {
			return Event{}, Return(ret)
		}
		l.watched = devices
	}
	data, ret := l.events.Wait(eventWaitMS)
	if ret != nvml.SUCCESS && ret != nvml.ERROR_TIMEOUT {
		l.unregister()
	}
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

func sameDevice(a, b Device) bool {
	x, isX := a.(*device)
	y, isY := b.(*device)
	return isX && isY && x.nvml == y.nvml
}

func (l *library) unregister() {
	_ = l.events.Free()
	l.events = nil
}

// register asks for the events that each device has.
func (l *library) register(devices []Device) nvml.Return {
	for _, symbol := range []string{"nvmlEventSetCreate", "nvmlEventSetWait", "nvmlEventSetFree", "nvmlDeviceRegisterEvents", "nvmlDeviceGetSupportedEventTypes"} {
		if !l.has(symbol) {
			return nvml.ERROR_NOT_SUPPORTED
		}
	}
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
	if !d.library.has("nvmlDeviceGetPciInfo") {
		return "", NotSupported
	}
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
	if !d.library.has("nvmlDeviceGetMinorNumber") {
		return 0, NotSupported
	}
	minor, ret := d.nvml.GetMinorNumber()
	return minor, Return(ret)
}

func (d *device) MemoryBytes() (uint64, Return) {
	if !d.library.has("nvmlDeviceGetMemoryInfo") {
		return 0, NotSupported
	}
	memory, ret := d.nvml.GetMemoryInfo()
	return memory.Total, Return(ret)
}

func (d *device) Major() (int, Return) {
	if !d.library.has("nvmlDeviceGetCudaComputeCapability") {
		return 0, NotSupported
	}
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
	if !d.library.has("nvmlDeviceGetTopologyCommonAncestor") {
		return 0, NotSupported
	}
	level, ret := d.nvml.GetTopologyCommonAncestor(own.nvml)
	return Ancestor(level), Return(ret)
}

func (d *device) LinkCarriesP2P(link int) (bool, Return) {
	if !d.library.has("nvmlDeviceGetNvLinkCapability") {
		return false, NotSupported
	}
	can, ret := d.nvml.GetNvLinkCapability(link, nvml.NVLINK_CAP_P2P_SUPPORTED)
	return can != 0, Return(ret)
}

func (d *device) LinkState(link int) (LinkState, Return) {
	value, ret := d.field(nvml.FI_DEV_NVLINK_GET_STATE, uint32(link))
	return LinkState(value), ret
}

func (d *device) LinkUp(link int) (bool, Return) {
	if !d.library.has("nvmlDeviceGetNvLinkState") {
		return false, NotSupported
	}
	state, ret := d.nvml.GetNvLinkState(link)
	return state == nvml.FEATURE_ENABLED, Return(ret)
}

func (d *device) LinkRemoteBusID(link int) (string, Return) {
	if !d.library.has("nvmlDeviceGetNvLinkRemotePciInfo") {
		return "", NotSupported
	}
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
	if !d.library.has("nvmlDeviceGetNvLinkVersion") {
		return 0, NotSupported
	}
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
	if !d.library.has("nvmlDeviceGetRetiredPagesPendingStatus") {
		return false, NotSupported
	}
	pending, ret := d.nvml.GetRetiredPagesPendingStatus()
	return pending == nvml.FEATURE_ENABLED, Return(ret)
}

func (d *device) UncorrectedErrors() (uint64, Return) {
	if !d.library.has("nvmlDeviceGetTotalEccErrors") {
		return 0, NotSupported
	}
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
