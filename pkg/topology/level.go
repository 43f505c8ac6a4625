// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package topology

// Names of the two levels that every tree has.
const (
	Cluster = "cluster"
	Host    = "host"
)

// hostnameLabel names the host level to users who know levels by their node label.
const hostnameLabel = "kubernetes.io/hostname"

// Level is one tier of the fabric: its name, and the node labels that may
// carry its value. The first label that a node has, with a value, counts.
type Level struct {
	Name       string
	NodeLabels []string
}

// DefaultLevels lists the levels that Tutti ships, from wide to narrow. It is
// the one place that spells their names and the labels of the tools and clouds
// that publish them; everything else treats levels as data.
func DefaultLevels() []Level {
	return []Level{
		{Name: "zone", NodeLabels: []string{
			"topology.tutti.dev/zone",
			"topology.kubernetes.io/zone",
		}},
		{Name: "spine", NodeLabels: []string{
			"topology.tutti.dev/spine",
			"fabric.topograph.run/tier-1",
			"network.topology.nvidia.com/spine",
			"cloud.google.com/gce-topology-block",
			"topology.k8s.aws/network-node-layer-2",
			"oci.oraclecloud.com/rdma.network_block_id",
		}},
		{Name: "rack", NodeLabels: []string{
			"topology.tutti.dev/rack",
			"fabric.topograph.run/tier-0",
			"network.topology.nvidia.com/leaf",
			"cloud.google.com/gce-topology-subblock",
			"topology.k8s.aws/network-node-layer-3",
			"oci.oraclecloud.com/rdma.local_block_id",
		}},
		{Name: "nvlink-domain", NodeLabels: []string{
			"topology.tutti.dev/nvlink-domain",
			"tutti.dev/nvlink-domain", // found by the node's agent
			"nvidia.com/gpu.clique",
			"accelerator.topograph.run/domain",
			"network.topology.nvidia.com/accelerator",
			"ds.coreweave.com/nvlink.domain",
			"topology.k8s.aws/ultraserver-id",
		}},
	}
}
