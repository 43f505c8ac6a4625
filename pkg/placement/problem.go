// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import "github.com/tutti-project/tutti/pkg/topology"

// Problem is one gang to place, and the cluster as it is now. Plan only reads
// it. All amounts are integers in the resources' smallest units.
type Problem struct {
	Tree      *topology.Tree
	Resources []string  // names of the entries of every vector below
	Free      [][]int64 // [host][resource]; negative where a host is overcommitted
	Roles     []Role
	// Kinds are what uniform roles tell hosts apart by, such as GPU model and
	// shape of node; nil where all hosts are alike.
	Kinds []string // [host]
	// GPUs is what is known of the hosts' GPUs; nil for nothing.
	GPUs []HostGPUs // [host]

	Constraint Constraint
	Anchors    []int // hosts of the gang's members that already run

	// Changes are hosts that are to be taken as having something else left than
	// Free says: a what-if. Each host at most once.
	Changes []Change

	// Empty is what every host would have with no pod on it; nil for unknown.
	Empty []Change // [host]
}

// Change is what a host would have left.
type Change struct {
	Host int
	Free []int64 // [resource]
	// GPUs are the free ones, if those of the host are known: none stands for
	// all that may be, where the device plugin picks. GPUs that disagree with Free
	// make them unknown.
	GPUs topology.Set
}

// Role is a set of pods that ask for the same.
type Role struct {
	Name    string
	Pods    int     // ranks 0 to Pods-1
	Minimum int     // ranks below it are placed, or the gang is not
	Request []int64 // [resource], of one pod
	// Serves: its pods are parameter servers, which exchange data with all pods
	// of the roles that do not serve.
	Serves bool
	// Uniform: all pods stand on hosts of one kind, and if Kind is not empty, of
	// this one, that of pods of the role that run already. Uniform roles of one
	// family, unless that is empty, have one kind together: what is one role to
	// people may be several here, because its pods differ; their Kind is the same.
	Uniform bool
	Kind    string
	Family  string
	// Link is the weakest link allowed between the GPUs of one pod. GPU is the
	// entry of Request that counts them, and means nothing without Link.
	Link topology.Demand
	GPU  int

	// Eligible says whether a pod of this role may stand on the host at all, and
	// if not, why. Free capacity is not its business. Plan asks only for hosts
	// it is about to use, each at most once. Nil means every host is eligible.
	Eligible func(host int) (bool, string)
	// EligibleEmpty is Eligible for a host with no pod on it.
	EligibleEmpty func(host int) (bool, string)
}

// Constraint says how near to each other the gang's pods must and should be.
// Levels are indexes; 0, the cluster, asks for nothing.
type Constraint struct {
	// Required: all pods, those that run included, are in one domain of this level.
	Required int
	// Preferred: a domain of this level is near enough, so the tightest one is
	// taken; if none holds the gang, ever wider ones, using as few domains of
	// the preferred level as possible. 0 means as narrow as possible. A gang of
	// one pod is as near as can be anywhere, so the tightest host is taken.
	Preferred int
	// SliceSize: if above 1, every so many consecutive ranks of a role are in one
	// domain of SliceLevel; the last slice of a role may be shorter. Ranks count
	// among the pods of the role: those that run already are not seen.
	SliceSize  int
	SliceLevel int
}
