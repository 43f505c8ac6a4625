// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeTopology is the GPUs of the node of the same name, and how they are linked. A missing or
// stale one means "unknown": neither "no GPUs" nor "it fits".
//
// +genclient
// +genclient:nonNamespaced
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=nodetopologies,singular=nodetopology,scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Free",type=integer,JSONPath=`.status.freeCount`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Heartbeat",type=date,JSONPath=`.status.heartbeatTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NodeTopology struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what does not change while the node runs. The node's agent writes it.
	// +optional
	Spec NodeTopologySpec `json:"spec,omitempty"`

	// Status is what changes with every pod. The node's agent writes it.
	// +optional
	Status NodeTopologyStatus `json:"status,omitempty"`
}

// NodeTopologyList is a list of NodeTopologies.
//
// +kubebuilder:object:root=true
type NodeTopologyList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NodeTopology `json:"items"`
}

// NodeTopologySpec is a node's hardware.
//
// +kubebuilder:validation:XValidation:rule="!has(self.links) || self.links.all(l, l.from < l.to)",message="a link is listed once, from the lower GPU index to the higher",fieldPath=".links"
type NodeTopologySpec struct {
	// GPUs in the order of their index.
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=index
	// +optional
	GPUs []GPU `json:"gpus,omitempty"`

	// Links is the upper triangle of the link matrix. A pair that is not listed was not measured.
	// +kubebuilder:validation:MaxItems=2016
	// +listType=map
	// +listMapKey=from
	// +listMapKey=to
	// +optional
	Links []Link `json:"links,omitempty"`

	// Fabric is the NVLink fabric that reaches beyond this node. Absent: none.
	// +optional
	Fabric *Fabric `json:"fabric,omitempty"`
}

// GPU is one device.
type GPU struct {
	// Index is the driver's number of the device, unique on the node. Links refer to it.
	// +kubebuilder:validation:Minimum=0
	Index int32 `json:"index"`

	// UUID is the device's identity, and its id at the device plugin.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	UUID string `json:"uuid"`

	// Model is the product's name as the driver gives it.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Model string `json:"model,omitempty"`

	// Memory is the device's total memory.
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`

	// NUMANode is the CPU-bearing NUMA node next to the device. Absent: unknown.
	// +kubebuilder:validation:Minimum=0
	// +optional
	NUMANode *int32 `json:"numaNode,omitempty"`

	// PCI is the device's place on the PCI bus.
	// +optional
	PCI *PCI `json:"pci,omitempty"`

	// MIG is true if the device is cut into instances; it then has no links.
	// +optional
	MIG bool `json:"mig,omitempty"`

	// NVLinks is how many NVLinks the device has when all are up. A pair with fewer than its
	// like is degraded.
	// +kubebuilder:validation:Minimum=0
	// +optional
	NVLinks int32 `json:"nvLinks,omitempty"`

	// NVLinkMBps is the bandwidth of one NVLink in one direction, in megabytes per second.
	// +kubebuilder:validation:Minimum=0
	// +optional
	NVLinkMBps int32 `json:"nvLinkMBps,omitempty"`
}

// PCI is a place on the PCI bus.
type PCI struct {
	// Address is domain:bus:device.function in lower case, as sysfs has it: 0000:07:00.0.
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`
	Address string `json:"address"`

	// Switches are the addresses of the bridges above the device, nearest first, up to but
	// without the root port.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Switches []string `json:"switches,omitempty"`

	// Root is the address of the root port.
	// +optional
	Root string `json:"root,omitempty"`
}

// Link is what connects two GPUs.
type Link struct {
	// From is the lower index of the pair.
	// +kubebuilder:validation:Minimum=0
	From int32 `json:"from"`
	// To is the higher index of the pair.
	// +kubebuilder:validation:Minimum=0
	To int32 `json:"to"`

	// NVLinks is how many NVLinks join the two, directly or through switches. Default: 0.
	// +kubebuilder:validation:Minimum=0
	// +optional
	NVLinks int32 `json:"nvLinks,omitempty"`

	// PCIe is the nearest common part of the two ways to the CPU.
	PCIe PCIeLevel `json:"pcie"`
}

// PCIeLevel tells how far apart two devices are, in nvidia-smi's words, nearest first.
//
// +kubebuilder:validation:Enum=PSB;PIX;PXB;PHB;NODE;SYS
type PCIeLevel string

const (
	PCIeSameBoard      PCIeLevel = "PSB"
	PCIeOneSwitch      PCIeLevel = "PIX"
	PCIeManySwitches   PCIeLevel = "PXB"
	PCIeHostBridge     PCIeLevel = "PHB"
	PCIeSameNUMANode   PCIeLevel = "NODE"
	PCIeAcrossNUMANode PCIeLevel = "SYS"
)

// Fabric is one partition of an NVLink fabric that spans nodes. Two nodes reach each other over
// NVLink if both fields are equal.
type Fabric struct {
	// ClusterUUID is the fabric's identity.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ClusterUUID string `json:"clusterUUID"`
	// CliqueID is the partition within it.
	// +kubebuilder:validation:Minimum=0
	CliqueID int64 `json:"cliqueID"`
}

// NodeTopologyStatus is a node's state.
type NodeTopologyStatus struct {
	// Free lists the UUIDs of GPUs that are healthy and given to no pod, in order of index.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Free []string `json:"free,omitempty"`

	// FreeCount is the length of Free, for people.
	// +kubebuilder:validation:Minimum=0
	// +optional
	FreeCount int32 `json:"freeCount"`

	// Unhealthy lists GPUs that must get no pod, and why. A GPU of the spec that is not listed is
	// healthy.
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=uuid
	// +optional
	Unhealthy []UnhealthyGPU `json:"unhealthy,omitempty"`

	// Given lists which pods hold which GPUs of the spec, whole ones only, in order of namespace and
	// name. The scheduler compares it with the links that it has promised.
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=namespace
	// +listMapKey=pod
	// +optional
	Given []GivenGPUs `json:"given,omitempty"`

	// Fingerprint is a hash over the pods that Free takes into account, so that a reader can tell
	// whether a pod it knows of is among them.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Fingerprint string `json:"fingerprint,omitempty"`

	// HeartbeatTime is when the agent last wrote, or a second after it saw what it wrote, if that was
	// earlier. It writes on every change, and at least every five minutes.
	// +optional
	HeartbeatTime *metav1.Time `json:"heartbeatTime,omitempty"`

	// ObservedGeneration is the generation of the spec that this status belongs to.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions: Ready is True while the agent can read devices and pods.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// UnhealthyGPU is a GPU that must get no pod.
type UnhealthyGPU struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	UUID string `json:"uuid"`
	// Reason is one CamelCase word, for programs.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`
	// Message is for people.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
}

// GivenGPUs are those that one pod holds.
type GivenGPUs struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Pod string `json:"pod"`
	// GPUs are UUIDs, in order of index.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	GPUs []string `json:"gpus"`
}

// NodeTopologyReady is the type of the condition that tells whether the agent can see the node.
const NodeTopologyReady = "Ready"
