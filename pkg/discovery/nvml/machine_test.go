// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tutti-project/tutti/pkg/topology"
)

// machine is a driver that answers as that of a machine with this matrix would, and the sysfs
// beside it. Nil functions of a GPU mean that the driver is too old for the question.
type machine struct {
	initialized Return
	gpus        []*gpu
	sys         string
	cells       [][]string // as nvidia-smi prints them
	next        func() (Event, Return)
	numa        []int
}

type gpu struct {
	machine *machine
	index   int
	opened  Return
	mig     bool
	down    int // links, from the first
	fabric  *Fabric
	action  int
	remote  []string // bus id at the end of every link; empty: a switch
	sleeps  bool
	major   int
	mbps    int
	wire    uint32
	failing string // the question that it fails to answer
	failure Return
	errors  uint64
	memory  uint64
}

// answer is the result of a question that can fail, if it is known at all.
func (g *gpu) answer(question string, usual Return) Return {
	if g.failing == question {
		return g.failure
	}
	return usual
}

func busID(index int) string { return fmt.Sprintf("00000000:%02X:00.0", index+1) }

// readMachine makes the machine of a fixture: with more links in a row than a GPU has, they go
// through switches.
func readMachine(t *testing.T, path string) *machine {
	t.Helper()
	m := &machine{sys: t.TempDir(), next: func() (Event, Return) { return Event{}, NotSupported }}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	host, err := topology.ParseHostFile(string(text))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	m.numa = host.NUMA
	m.connect(host)
	m.mountSysfs(t)
	return m
}

func (m *machine) connect(host topology.HostFile) {
	for i, row := range host.Links {
		g := &gpu{machine: m, index: i, major: 8, memory: 80 << 30, mbps: host.Rates.NVLink, wire: 4}
		if g.mbps == 50000 {
			g.major, g.wire = 10, 7
		}
		cells := make([]string, len(row))
		for j, link := range row {
			if cells[j] = link.String(); i == j {
				cells[j] = "X"
			}
			for range link.Bonded {
				g.remote = append(g.remote, busID(j))
			}
		}
		m.cells = append(m.cells, cells)
		if links := host.Rates.NVLinks; len(g.remote) > links {
			g.remote = make([]string, links)
		}
		m.gpus = append(m.gpus, g)
	}
}

// mountSysfs: every GPU has a switch and a root port of its own.
func (m *machine) mountSysfs(t *testing.T) {
	t.Helper()
	for i, numa := range m.numa {
		address := sysfsAddress(busID(i))
		way := fmt.Sprintf("devices/pci0000:00/0000:00:%02x.0/0000:f0:%02x.0/%s", i, i, address)
		m.write(t, way+"/numa_node", strconv.Itoa(numa))
		m.write(t, way+"/class", "0x030200")
		if numa >= 0 {
			m.write(t, fmt.Sprintf("%s/node%d/cpulist", numaNodes, numa), fmt.Sprintf("%d-%d", numa*8, numa*8+7))
		}
		if err := os.MkdirAll(filepath.Join(m.sys, pciDevices), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("../../../"+way, filepath.Join(m.sys, pciDevices, address)); err != nil {
			t.Fatal(err)
		}
	}
}

func (m *machine) write(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(m.sys, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (m *machine) source() *Source {
	return New(func() (Library, error) { return m, nil }, os.DirFS(m.sys))
}

func (m *machine) Init() Return                       { return m.initialized }
func (m *machine) Shutdown()                          {}
func (m *machine) DriverVersion() (string, Return)    { return "550.54.15", Success }
func (m *machine) DeviceCount() (int, Return)         { return len(m.gpus), Success }
func (m *machine) Device(i int) (Device, Return)      { return m.gpus[i], m.gpus[i].opened }
func (m *machine) NextEvent([]Device) (Event, Return) { return m.next() }
func (g *gpu) UUID() (string, Return)                 { return fmt.Sprintf("GPU-%d", g.index), g.opened }
func (g *gpu) Name() (string, Return)                 { return "Model", g.answer("Name", Success) }
func (g *gpu) BusID() (string, Return)                { return busID(g.index), Success }
func (g *gpu) Minor() (int, Return)                   { return g.index, Success }
func (g *gpu) MemoryBytes() (uint64, Return)          { return g.memory, Success }
func (g *gpu) Major() (int, Return)                   { return g.major, Success }
func (g *gpu) IsMIG() (bool, Return)                  { return g.mig, Success }
func (g *gpu) IsVirtual() (bool, Return)              { return false, NotSupported }
func (g *gpu) LinkVersion(int) (uint32, Return)       { return g.wire, Success }
func (g *gpu) LinkMBps() (int, Return)                { return g.mbps, Success }
func (g *gpu) RecoveryAction() (int, Return)          { return g.action, g.answer("RecoveryAction", Success) }
func (g *gpu) RowRemapFailed() (bool, Return)         { return false, g.answer("RowRemapFailed", NotSupported) }
func (g *gpu) RetiredPagesPending() (bool, Return) {
	return false, g.answer("RetiredPagesPending", NotSupported)
}
func (g *gpu) UncorrectedErrors() (uint64, Return) {
	return g.errors, g.answer("UncorrectedErrors", Success)
}
func (g *gpu) LinkRemoteType(int) (RemoteType, Return) { return RemoteUnknown, NotSupported }
func (g *gpu) LinkRemoteBusID(l int) (string, Return) {
	return g.remote[l], g.answer("LinkRemoteBusID", Success)
}
func (g *gpu) LinkUp(l int) (bool, Return) { return l >= g.down, g.answer("LinkUp", Success) }

func (g *gpu) LinkCarriesP2P(l int) (bool, Return) {
	if l >= len(g.remote) {
		return false, InvalidArgument
	}
	return true, g.answer("LinkCarriesP2P", Success)
}

func (g *gpu) LinkState(l int) (LinkState, Return) {
	switch {
	case l < g.down:
		return LinkInactive, Success
	case g.sleeps:
		return LinkSleeping, Success
	}
	return LinkActive, Success
}

func (g *gpu) Fabric() (Fabric, Return) {
	if g.fabric == nil {
		return Fabric{}, g.answer("Fabric", NotSupported)
	}
	return *g.fabric, g.answer("Fabric", Success)
}

// Ancestor of a pair with NVLink is not in the matrix; it is taken for the NUMA nodes'.
func (g *gpu) Ancestor(other Device) (Ancestor, Return) {
	if ret := g.answer("Ancestor", Success); ret != Success {
		return 0, ret
	}
	j := other.(*gpu).index
	for number, level := range levels {
		cell := strings.Replace(g.machine.cells[g.index][j], "SOC", "SYS", 1)
		if string(level) == cell {
			return number, Success
		}
	}
	if g.machine.numa[g.index] == g.machine.numa[j] {
		return 40, Success
	}
	return 50, Success
}
