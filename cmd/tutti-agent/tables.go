// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-project/tutti/pkg/agent"
	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
)

// printTables prints the matrix, the GPUs one by one, and what else there is to say.
func printTables(out io.Writer, node string, report agent.Report, answers []agent.Answer) {
	fmt.Fprintf(out, "%s: GPUs: %d\n\n", node, len(report.Spec.GPUs))
	printMatrix(out, report.Spec)
	fmt.Fprintln(out)
	printGPUs(out, report)
	printLinkSets(out, report.Spec)
	if f := report.Spec.Fabric; f != nil {
		fmt.Fprintf(out, "\nNVLink reaches other nodes of the fabric %s, clique %d.\n", f.ClusterUUID, f.CliqueID)
	}
	for _, answer := range answers {
		if answer.Err != nil {
			fmt.Fprintf(out, "\n%s cannot see: %v\n", answer.Source, answer.Err)
		}
	}
	for _, c := range report.Status.Conditions {
		if c.Status != metav1.ConditionTrue && len(report.Spec.GPUs) > 0 && !slices.ContainsFunc(answers, func(a agent.Answer) bool { return a.Err != nil }) {
			fmt.Fprintf(out, "\n%s: %s\n", c.Reason, c.Message)
		}
	}
}

// printMatrix prints what nvidia-smi topo -m does, but for the CPUs, for which the NUMA node stands.
func printMatrix(out io.Writer, spec *v1alpha1.NodeTopologySpec) {
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, gpu := range spec.GPUs {
		fmt.Fprintf(table, "\tGPU%d", gpu.Index)
	}
	fmt.Fprintln(table, "\tNUMA Affinity")
	used := map[string]bool{}
	for _, row := range spec.GPUs {
		fmt.Fprintf(table, "GPU%d", row.Index)
		for _, column := range spec.GPUs {
			cell := cellOf(spec, row.Index, column.Index)
			used[strings.TrimRight(cell, "0123456789")] = true
			fmt.Fprint(table, "\t"+cell)
		}
		fmt.Fprintln(table, "\t"+numaOf(row))
	}
	_ = table.Flush() // the writer below tells
	fmt.Fprintln(out)
	for _, entry := range legend {
		if used[entry.cell] {
			fmt.Fprintf(out, "%-4s = %s\n", entry.shown, entry.means)
		}
	}
}

// legend is what cells mean, in nvidia-smi's order.
var legend = []struct{ cell, shown, means string }{
	{"X", "X", "the GPU itself"},
	{string(v1alpha1.PCIeAcrossNUMANode), "SYS", "across NUMA nodes"},
	{string(v1alpha1.PCIeSameNUMANode), "NODE", "between PCIe host bridges of one NUMA node"},
	{string(v1alpha1.PCIeHostBridge), "PHB", "through a PCIe host bridge, usually the CPU's"},
	{string(v1alpha1.PCIeManySwitches), "PXB", "through several PCIe switches, no host bridge"},
	{string(v1alpha1.PCIeOneSwitch), "PIX", "through one PCIe switch at most"},
	{string(v1alpha1.PCIeSameBoard), "PSB", "on one board"},
	{"NV", "NV#", "over # NVLinks, directly or through switches"},
	{"?", "?", "not measured"},
}

func cellOf(spec *v1alpha1.NodeTopologySpec, a, b int32) string {
	if a == b {
		return "X"
	}
	for _, link := range spec.Links {
		if link.From == min(a, b) && link.To == max(a, b) {
			if link.NVLinks > 0 {
				return fmt.Sprintf("NV%d", link.NVLinks)
			}
			return string(link.PCIe)
		}
	}
	return "?"
}

func numaOf(gpu v1alpha1.GPU) string {
	if gpu.NUMANode == nil {
		return "N/A"
	}
	return fmt.Sprint(*gpu.NUMANode)
}

func printGPUs(out io.Writer, report agent.Report) {
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "GPU\tUUID\tMODEL\tMEMORY\tPCI\tNVLINKS\tSTATE")
	for _, gpu := range report.Spec.GPUs {
		memory, address := "", ""
		if gpu.Memory != nil {
			memory = gpu.Memory.String()
		}
		if gpu.PCI != nil {
			address = gpu.PCI.Address
		}
		links := "none"
		if gpu.NVLinks > 0 {
			links = fmt.Sprintf("%d x %d MB/s", gpu.NVLinks, gpu.NVLinkMBps)
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\t%s\n", gpu.Index, gpu.UUID, gpu.Model, memory, address, links, stateOf(report, gpu))
	}
	for _, ill := range report.Status.Unhealthy {
		if !slices.ContainsFunc(report.Spec.GPUs, func(g v1alpha1.GPU) bool { return g.UUID == ill.UUID }) {
			fmt.Fprintf(table, "?\t%s\t\t\t\t\t%s: %s\n", ill.UUID, ill.Reason, ill.Message)
		}
	}
	_ = table.Flush() // out tells
}

// stateOf is free, who has it, or what is the matter.
func stateOf(report agent.Report, gpu v1alpha1.GPU) string {
	var state string
	for _, ill := range report.Status.Unhealthy {
		if ill.UUID == gpu.UUID {
			state = ill.Reason + ": " + ill.Message
		}
	}
	for _, given := range report.Status.Given {
		if slices.Contains(given.GPUs, gpu.UUID) {
			state = strings.TrimPrefix(state+"; given to "+given.Namespace+"/"+given.Pod, "; ")
		}
	}
	switch {
	case gpu.MIG:
		return cmp.Or(state, "cut into instances (MIG)")
	case slices.Contains(report.Status.Free, gpu.UUID):
		return cmp.Or(state, "free")
	}
	if meta.IsStatusConditionTrue(report.Status.Conditions, v1alpha1.NodeTopologyReady) {
		return cmp.Or(state, "the kubelet does not offer it whole")
	}
	return cmp.Or(state, "it is not known whether it is free")
}
