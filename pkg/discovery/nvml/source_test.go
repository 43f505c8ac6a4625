// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
	"github.com/tutti-project/tutti/pkg/discovery"
	"github.com/tutti-project/tutti/pkg/discovery/discoverytest"
)

const hosts = "../../topology/testdata/hosts"

// matrix is what nvidia-smi would print of the hardware.
func matrix(hardware *v1alpha1.NodeTopologySpec) [][]string {
	cells := make([][]string, len(hardware.GPUs))
	for i := range cells {
		cells[i] = make([]string, len(hardware.GPUs))
		cells[i][i] = "X"
	}
	for _, link := range hardware.Links {
		cell := string(link.PCIe)
		if link.NVLinks > 0 {
			cell = fmt.Sprintf("NV%d", link.NVLinks)
		}
		cells[link.From][link.To], cells[link.To][link.From] = cell, cell
	}
	return cells
}

// TestEveryMachineIsMeasuredAsItIs: link by link, the source finds the matrix of each known machine
// again, and its NUMA nodes.
func TestEveryMachineIsMeasuredAsItIs(t *testing.T) {
	files, err := filepath.Glob(hosts + "/*")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d fixtures: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			m := readMachine(t, file)
			discoverytest.Run(t, m.source())
			facts, err := m.source().Discover(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(m.cells, matrix(facts.Hardware)); diff != "" {
				t.Errorf("matrix (-want +got):\n%s", diff)
			}
			checkGPUs(t, m, facts.Hardware.GPUs)
			if len(facts.Unhealthy) > 0 {
				t.Errorf("unhealthy: %+v", facts.Unhealthy)
			}
		})
	}
}

func checkGPUs(t *testing.T, m *machine, gpus []v1alpha1.GPU) {
	t.Helper()
	most := 0
	for _, g := range m.gpus {
		most = max(most, len(g.remote))
	}
	for i, gpu := range gpus {
		if numa := gpu.NUMANode; (m.numa[i] < 0) != (numa == nil) || numa != nil && int(*numa) != m.numa[i] {
			t.Errorf("GPU %d: NUMA node %v, want %d", i, numa, m.numa[i])
		}
		if int(gpu.NVLinks) != most || gpu.PCI.Root == "" || len(gpu.PCI.Switches) != 1 {
			t.Errorf("GPU %d: %d links, PCI %+v", i, gpu.NVLinks, gpu.PCI)
		}
		if len(m.gpus[i].remote) > 0 && int(gpu.NVLinkMBps) != m.gpus[i].mbps {
			t.Errorf("GPU %d: %d MB/s a link, want %d", i, gpu.NVLinkMBps, m.gpus[i].mbps)
		}
	}
}

func TestLinksThatAreDownLowerThePairAndNotTheNominal(t *testing.T) {
	m := readMachine(t, hosts+"/gb200-tray")
	m.gpus[1].down = 4
	for _, g := range m.gpus {
		g.sleeps = true // idle links are there
	}
	facts, err := m.source().Discover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := matrix(facts.Hardware); got[0][1] != "NV14" || got[0][2] != "NV18" || facts.Hardware.GPUs[1].NVLinks != 18 {
		t.Errorf("matrix %v, nominal %d", got, facts.Hardware.GPUs[1].NVLinks)
	}
}

func TestOneSideThatLosesALinkLosesItForBoth(t *testing.T) {
	m := readMachine(t, hosts+"/dgx-1v")
	m.gpus[0].down = 1 // the only one to GPU 1
	facts, err := m.source().Discover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := matrix(facts.Hardware)[1][0]; got != "NODE" {
		t.Errorf("from 1 to 0: %s, want NODE", got)
	}
}

func TestStates(t *testing.T) {
	clique := &Fabric{ClusterUUID: [16]byte{1}, CliqueID: 7, State: FabricCompleted}
	for name, tc := range map[string]struct {
		change func(*machine)
		want   string
	}{
		"no library":             {func(m *machine) { m.initialized = LibraryNotFound }, "LibraryNotFound"},
		"no kernel module":       {func(m *machine) { m.initialized = DriverNotLoaded }, "DriverNotLoaded"},
		"versions differ":        {func(m *machine) { m.initialized = VersionMismatch }, "DriverMismatch"},
		"no permission":          {func(m *machine) { m.initialized = NoPermission }, "NoPermission"},
		"an unknown result":      {func(m *machine) { m.initialized = 999 }, "DriverError"},
		"no GPU":                 {func(m *machine) { m.gpus = nil }, "NoGPU"},
		"a lost GPU":             {func(m *machine) { m.gpus[2].opened = GPUIsLost }, "3 GPUs; index-2 GPULost"},
		"a GPU to reset":         {func(m *machine) { m.gpus[2].action = 1 }, "4 GPUs; GPU-2 RecoveryNeeded"},
		"no fabric manager":      {func(m *machine) { m.gpus[3].fabric = &Fabric{State: FabricInProgress} }, "4 GPUs; GPU-3 FabricNotReady"},
		"a fabric that failed":   {func(m *machine) { m.gpus[3].fabric = &Fabric{State: FabricCompleted, Status: 999} }, "4 GPUs; GPU-3 FabricFailed"},
		"a GPU cut in instances": {func(m *machine) { m.gpus[1].mig = true }, "4 GPUs; MIG 1, 0-1 SYS"},
		"a clique": {func(m *machine) {
			for _, g := range m.gpus {
				g.fabric = clique
			}
		}, "4 GPUs; fabric 01000000-0000-0000-0000-000000000000.7"},
		"half a clique": {func(m *machine) { m.gpus[0].fabric = clique }, "4 GPUs"},
		"a single board": {func(m *machine) {
			for _, g := range m.gpus {
				g.fabric = &Fabric{State: FabricCompleted}
			}
		}, "4 GPUs"},
	} {
		t.Run(name, func(t *testing.T) {
			m := readMachine(t, hosts+"/h100-sxm-4")
			tc.change(m)
			discoverytest.Run(t, m.source())
			if got := outline(m.source().Discover(t.Context())); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func outline(facts discovery.Facts, err error) string {
	var unavailable *discovery.Unavailable
	if errors.As(err, &unavailable) {
		return unavailable.Reason
	}
	if err != nil {
		return err.Error()
	}
	parts := []string{fmt.Sprintf("%d GPUs", len(facts.Hardware.GPUs))}
	for _, ill := range facts.Unhealthy {
		parts = append(parts, ill.UUID+" "+ill.Reason)
	}
	for _, gpu := range facts.Hardware.GPUs {
		if gpu.MIG {
			parts = append(parts, fmt.Sprintf("MIG %d, 0-1 %s", gpu.Index, matrix(facts.Hardware)[0][1]))
		}
	}
	if f := facts.Hardware.Fabric; f != nil {
		parts = append(parts, fmt.Sprintf("fabric %s.%d", f.ClusterUUID, f.CliqueID))
	}
	return strings.Join(parts, "; ")
}

// TestALostGPUKeepsItsNameAndComesBack: what was known of it before is what it is called.
func TestALostGPUKeepsItsNameAndComesBack(t *testing.T) {
	m := readMachine(t, hosts+"/l40s-4")
	source := m.source()
	for i, want := range []string{"4 GPUs", "4 GPUs; GPU-1 GPULost", "4 GPUs"} {
		m.gpus[1].opened = Success
		if i == 1 {
			m.gpus[1].opened = GPUIsLost
		}
		if got := outline(source.Discover(t.Context())); got != want {
			t.Errorf("round %d: %s, want %s", i, got, want)
		}
	}
}

func TestMemoryNodesAreNotTakenForThoseWithCPUs(t *testing.T) {
	m := readMachine(t, hosts+"/gb200-tray")
	way := fmt.Sprintf("devices/pci0000:00/0000:00:02.0/0000:f0:02.0/%s", sysfsAddress(busID(2)))
	m.write(t, way+"/numa_node", "18") // the GPU's own memory
	m.write(t, way+"/local_cpulist", "8-15")
	m.write(t, numaNodes+"/node18/cpulist", "")
	if got := numaNode(os.DirFS(m.sys), sysfsAddress(busID(2))); got == nil || *got != 1 {
		t.Errorf("NUMA node %v, want 1", got)
	}
}

// TestHardwareFollowsWhatTheDriverSays: what is read of the hardware at a bad moment, before the fabric
// is set up or while the driver fails to answer, is read again; what was known of a GPU that is lost is kept.
func TestHardwareFollowsWhatTheDriverSays(t *testing.T) {
	const host = "h100-sxm-4"
	all := func(m *machine, change func(*gpu)) {
		for _, g := range m.gpus {
			change(g)
		}
	}
	for name, tc := range map[string]struct {
		change func(*machine)
		after  bool   // the hardware has been read before
		during string // the link between GPUs 0 and 1
	}{
		"all links are down at first":  {func(m *machine) { all(m, func(g *gpu) { g.down = 99 }) }, false, "SYS"},
		"a link goes down":             {func(m *machine) { m.gpus[1].down = 1 }, true, "NV5"},
		"how many links there are":     {func(m *machine) { all(m, func(g *gpu) { g.failing = "LinkCarriesP2P" }) }, false, "SYS"},
		"whether links are up":         {func(m *machine) { all(m, func(g *gpu) { g.failing = "LinkUp" }) }, false, "SYS"},
		"where links lead":             {func(m *machine) { all(m, func(g *gpu) { g.failing = "LinkRemoteBusID" }) }, false, "NV18"},
		"where GPUs are":               {func(m *machine) { all(m, func(g *gpu) { g.failing = "Ancestor"; g.down = 99 }) }, false, ""},
		"what a GPU is called":         {func(m *machine) { m.gpus[1].failing = "Name" }, false, ""},
		"a GPU is lost":                {func(m *machine) { m.gpus[3].opened = GPUIsLost; all(m, func(g *gpu) { g.down = 1 }) }, true, "NV6"},
		"it fails to say what is up":   {func(m *machine) { all(m, func(g *gpu) { g.failing = "LinkUp" }) }, true, "NV6"},
		"it says all of a sudden less": {func(m *machine) { all(m, func(g *gpu) { g.failing = "LinkCarriesP2P" }) }, true, "NV6"},
	} {
		t.Run(name, func(t *testing.T) {
			m := readMachine(t, hosts+"/"+host)
			source := m.source()
			look := func() *v1alpha1.NodeTopologySpec {
				facts, err := source.Discover(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return facts.Hardware
			}
			link := func(spec *v1alpha1.NodeTopologySpec) string {
				for _, l := range spec.Links {
					if l.From == 0 && l.To == 1 {
						return matrix(spec)[0][1]
					}
				}
				return ""
			}
			if tc.after {
				look()
			}
			all(m, func(g *gpu) { g.failure = 999 })
			tc.change(m)
			during := look()
			if got := link(during); got != tc.during {
				t.Errorf("meanwhile GPUs 0 and 1 are linked by %q, want %q", got, tc.during)
			}
			all(m, func(g *gpu) { g.failing, g.down, g.opened = "", 0, Success })
			if diff := cmp.Diff(m.cells, matrix(look())); diff != "" {
				t.Errorf("matrix in the end (-want +got):\n%s", diff)
			}
		})
	}
}

// TestALostGPUIsIllWhicheverQuestionFindsOut: drivers remember names, and not every one knows every question.
// The fabric that the others are in stays.
func TestALostGPUIsIllWhicheverQuestionFindsOut(t *testing.T) {
	for _, question := range []string{"RecoveryAction", "UncorrectedErrors", "RowRemapFailed", "RetiredPagesPending", "Fabric"} {
		t.Run(question, func(t *testing.T) {
			m := readMachine(t, hosts+"/gb200-tray")
			for _, g := range m.gpus {
				g.fabric = &Fabric{ClusterUUID: [16]byte{1}, CliqueID: 7, State: FabricCompleted}
			}
			source := m.source()
			for _, lost := range []string{"", "; GPU-2 GPULost", ""} {
				m.gpus[2].failing, m.gpus[2].failure = "", GPUIsLost
				if lost != "" {
					m.gpus[2].failing = question
				}
				want := "4 GPUs" + lost + "; fabric 01000000-0000-0000-0000-000000000000.7"
				if got := outline(source.Discover(t.Context())); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			}
		})
	}
}

// TestAGPUThatStaysLostKeepsItsName, however often the hardware is read meanwhile.
func TestAGPUThatStaysLostKeepsItsName(t *testing.T) {
	m := readMachine(t, hosts+"/l40s-4")
	source := m.source()
	for round := range 5 {
		want := "4 GPUs"
		if round > 0 {
			m.gpus[1].opened = GPUIsLost
			m.gpus[3].mig = !m.gpus[3].mig // has it read again
			want = "3 GPUs; GPU-1 GPULost"
		}
		facts, err := source.Discover(t.Context())
		for i := range facts.Hardware.GPUs {
			facts.Hardware.GPUs[i].MIG = false
		}
		if got := outline(facts, err); got != want {
			t.Errorf("round %d: %s, want %s", round, got, want)
		}
	}
}

// TestNumbersThatAreNone: drivers answer with all bits set where they have no number.
func TestNumbersThatAreNone(t *testing.T) {
	m := readMachine(t, hosts+"/gb200-tray")
	for _, g := range m.gpus {
		g.memory, g.errors, g.action, g.mbps = math.MaxUint64, math.MaxUint64, math.MaxUint32, math.MaxUint32
	}
	m.gpus[1].wire = 99                  // of a link that is not known either
	m.gpus[2].failing = "RecoveryAction" // then memory errors count
	m.gpus[2].failure = NotSupported
	facts, err := m.source().Discover(t.Context())
	if err != nil || len(facts.Unhealthy) > 0 {
		t.Fatalf("%v, unhealthy: %+v", err, facts.Unhealthy)
	}
	for i, gpu := range facts.Hardware.GPUs {
		want := int32(50000)
		if i == 1 {
			want = 0
		}
		if gpu.Memory != nil || gpu.NVLinkMBps != want {
			t.Errorf("GPU %d: memory %v, %d MB/s a link", i, gpu.Memory, gpu.NVLinkMBps)
		}
	}
}

func TestBusIDs(t *testing.T) {
	for busID, want := range map[string]string{
		"00000000:07:00.0": "0000:07:00.0", "0000:07:00.0": "0000:07:00.0", "00000008:01:00.0": "0008:01:00.0",
		"0000A1B2:C0:00.0": "a1b2:c0:00.0", "00010000:01:00.0": "10000:01:00.0",
		"ffffffff:ff:ff.0": "", "": "", "N/A": "", "0000:7:0.0": "", "0000:07:00.0 (rev a1)": "", "0000:07:00.9": "",
	} {
		got := sysfsAddress(busID)
		if !isAddress(got) {
			got = ""
		}
		if got != want {
			t.Errorf("%q: %q, want %q", busID, got, want)
		}
	}
}

// TestErrorsAreWaitedForAsLongAsItRuns: whatever fails once, the errors that come later are heard, and a
// GPU that reports thousands is told of once.
func TestErrorsAreWaitedForAsLongAsItRuns(t *testing.T) {
	for _, failure := range []Return{NotSupported, GPUIsLost, 999} {
		m := readMachine(t, hosts+"/l40s-4")
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			m.next = func() (Event, Return) {
				switch asked++; {
				case asked == 1:
					return Event{}, failure
				case asked == 2:
					return Event{UUID: "GPU-0", Xid: 43}, Success // of the application
				case asked == 3:
					return Event{}, Success // of one that is gone
				case asked < 1000:
					return Event{UUID: "GPU-2", Xid: 79 + uint64(asked%2)}, Success
				}
				time.Sleep(time.Second)
				return Event{}, Timeout
			}
			source, told := m.source(), 0
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { source.Watch(ctx, func() { told++ }); close(done) }()
			if got := outline(source.Discover(ctx)); got != "4 GPUs" {
				t.Error(got)
			}
			time.Sleep(time.Minute)
			if got := outline(source.Discover(ctx)); got != "4 GPUs; GPU-2 Xid" || told != 1 {
				t.Errorf("after result %d: %s, told %d times", failure, got, told)
			}
			stop()
			<-done
		})
	}
}
