// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvml

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/gpus"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"

	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
	"github.com/tutti-project/tutti/pkg/board"
	"github.com/tutti-project/tutti/pkg/placement"
	"github.com/tutti-project/tutti/pkg/topology"
)

// mocked is the machine's driver as NVIDIA's binding shows it: what their mock of a server leaves
// out answers as the machine does.
func mocked(t *testing.T, m *machine) *library {
	t.Helper()
	config := gpus.A100_SXM4_80GB
	s, err := server.New(server.WithGPUs(gpus.Multiple(len(m.gpus), config)...), server.WithDriverVersion("550.54.15"))
	if err != nil {
		t.Fatal(err)
	}
	for i, g := range m.gpus {
		d := s.Devices[i].(*server.Device)
		d.Config.CudaMajor = g.major
		d.GetUUIDFunc = func() (string, nvml.Return) { uuid, ret := g.UUID(); return uuid, nvml.Return(ret) }
		d.GetPciInfoFunc = func() (nvml.PciInfo, nvml.Return) {
			var info nvml.PciInfo
			id, ret := g.BusID()
			chars(info.BusId[:], id)
			return info, nvml.Return(ret)
		}
		d.GetVirtualizationModeFunc = func() (nvml.GpuVirtualizationMode, nvml.Return) {
			return nvml.GPU_VIRTUALIZATION_MODE_NONE, nvml.SUCCESS
		}
		d.GetTopologyCommonAncestorFunc = func(other nvml.Device) (nvml.GpuTopologyLevel, nvml.Return) {
			level, ret := g.Ancestor(m.gpus[other.(*server.Device).Index])
			return nvml.GpuTopologyLevel(level), nvml.Return(ret)
		}
		mockLinks(d, g)
		mockHealth(d, g)
	}
	return &library{nvml: s}
}

func mockLinks(d *server.Device, g *gpu) {
	d.GetNvLinkCapabilityFunc = func(link int, _ nvml.NvLinkCapability) (uint32, nvml.Return) {
		p2p, ret := g.LinkCarriesP2P(link)
		if p2p {
			return 1, nvml.Return(ret)
		}
		return 0, nvml.Return(ret)
	}
	d.GetNvLinkStateFunc = func(link int) (nvml.EnableState, nvml.Return) {
		if up, _ := g.LinkUp(link); up {
			return nvml.FEATURE_ENABLED, nvml.SUCCESS
		}
		return nvml.FEATURE_DISABLED, nvml.SUCCESS
	}
	d.GetNvLinkRemotePciInfoFunc = func(link int) (nvml.PciInfo, nvml.Return) {
		var info nvml.PciInfo
		id, ret := g.LinkRemoteBusID(link)
		chars(info.BusId[:], id)
		return info, nvml.Return(ret)
	}
	d.GetNvLinkRemoteDeviceTypeFunc = func(link int) (nvml.IntNvLinkDeviceType, nvml.Return) {
		if g.remote[link] == "" {
			return nvml.NVLINK_DEVICE_TYPE_SWITCH, nvml.SUCCESS
		}
		return nvml.NVLINK_DEVICE_TYPE_GPU, nvml.SUCCESS
	}
	d.GetNvLinkVersionFunc = func(link int) (uint32, nvml.Return) {
		version, ret := g.LinkVersion(link)
		return version, nvml.Return(ret)
	}
}

func mockHealth(d *server.Device, g *gpu) {
	d.GetFieldValuesFunc = func(values []nvml.FieldValue) nvml.Return {
		for i := range values {
			v := &values[i]
			var n int
			switch v.FieldId {
			case nvml.FI_DEV_NVLINK_GET_STATE:
				state, _ := g.LinkState(int(v.ScopeId))
				n = int(state)
			case nvml.FI_DEV_NVLINK_SPEED_MBPS_COMMON:
				n = g.mbps
			case nvml.FI_DEV_GET_GPU_RECOVERY_ACTION:
				n = g.action
			default:
				v.NvmlReturn = uint32(nvml.ERROR_NOT_SUPPORTED)
				continue
			}
			v.Value[0], v.Value[1], v.Value[2] = byte(n), byte(n>>8), byte(n>>16)
		}
		return nvml.SUCCESS
	}
	d.GetGpuFabricInfoFunc = func() (nvml.GpuFabricInfo, nvml.Return) {
		return nvml.GpuFabricInfo{}, nvml.ERROR_NOT_SUPPORTED
	}
	d.GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) { return 0, 0, false, false, nvml.SUCCESS }
	d.GetRetiredPagesPendingStatusFunc = func() (nvml.EnableState, nvml.Return) {
		return nvml.FEATURE_DISABLED, nvml.ERROR_NOT_SUPPORTED
	}
	d.GetTotalEccErrorsFunc = func(nvml.MemoryErrorType, nvml.EccCounterType) (uint64, nvml.Return) { return 0, nvml.SUCCESS }
}

func chars(to []int8, from string) {
	for i := range from {
		to[i] = int8(from[i])
	}
}

// TestDecisionsOnEveryMachine goes all the way: from the binding's mock through the source to the
// planner's answer, which is in testdata/decisions.
func TestDecisionsOnEveryMachine(t *testing.T) {
	decided := map[string]bool{}
	datadriven.RunTest(t, "testdata/decisions", func(t *testing.T, d *datadriven.TestData) string {
		name := d.CmdArgs[0].Key
		decided[name] = true
		m := readMachine(t, filepath.Join(hosts, name))
		l := mocked(t, m)
		facts, err := New(func() (Library, error) { return l, nil }, os.DirFS(m.sys)).Discover(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		direct, err := m.source().Discover(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(direct.Hardware.Links, facts.Hardware.Links); diff != "" {
			t.Errorf("%s: the binding shows other links (-machine +binding):\n%s", name, diff)
		}
		return decisions(t, facts.Hardware)
	})
	files, err := filepath.Glob(hosts + "/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !decided[filepath.Base(file)] {
			t.Errorf("testdata/decisions lacks %s", filepath.Base(file))
		}
	}
}

// decisions asks the planner for one pod of every size and link on the only host, whose device
// plugin picks: while all GPUs are free, and while just as many are as the pod asks for.
func decisions(t *testing.T, spec *v1alpha1.NodeTopologySpec) string {
	t.Helper()
	read, err := board.Of(spec)
	if err != nil {
		t.Fatal(err)
	}
	model, err := read.Model()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for link := topology.Demand(len(topology.Demands()) - 1); link > 0; link-- {
		promised, refusal := "", ""
		for size := 2; size <= model.Count(); size++ {
			if ok, why := plan(model, model.All(), size, link); ok {
				promised += fmt.Sprintf(" %d", size)
			} else if refusal == "" {
				refusal = fmt.Sprintf("; %d GPUs: %s", size, why)
			}
		}
		fmt.Fprintf(&out, "%s:%s%s\n", link, orNone(promised), refusal)
	}
	if !model.Uniform() {
		fmt.Fprintf(&out, "sets with nvlink: %s\n", linkedSets(model))
	}
	return out.String()
}

// linkedSets counts, for each size, the sets that are promised nvlink where nothing else is free.
func linkedSets(model *topology.GPUs) string {
	nvlink := topology.Demand(len(topology.Demands()) - 1)
	linked, all := map[int]int{}, map[int]int{}
	for set := range model.All() + 1 {
		all[set.Len()]++
		if set.Len() < 2 {
			continue
		}
		if ok, _ := plan(model, set, set.Len(), nvlink); ok {
			linked[set.Len()]++
		}
	}
	var counts []string
	for size := 2; size <= model.Count(); size++ {
		counts = append(counts, fmt.Sprintf("%d of %d of %d GPUs", linked[size], all[size], size))
	}
	return strings.Join(counts, ", ")
}

func plan(model *topology.GPUs, free topology.Set, size int, link topology.Demand) (ok bool, why string) {
	tree := topology.New(nil, []topology.HostLabels{{Name: "n1"}})
	planner := placement.NewPlanner(tree, []string{"nvidia.com/gpu"}, [][]int64{{int64(free.Len())}})
	planner.SetGPUs(0, placement.HostGPUs{Model: model, Free: free, Healthy: model.All()})
	problem := placement.Problem{
		Tree: tree, Resources: []string{"nvidia.com/gpu"},
		Roles: []placement.Role{{Name: "worker", Pods: 1, Minimum: 1, Request: []int64{int64(size)}, Link: link}},
	}
	decision := planner.Plan(problem)
	if decision.Hosts != nil {
		return true, ""
	}
	return false, decision.Explain(problem)
}

func orNone(list string) string {
	if list == "" {
		return " none"
	}
	return list
}
