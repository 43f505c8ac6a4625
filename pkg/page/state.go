// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package page

// State is what the page draws. Hosts are in the order of the tree, so that a
// domain is a range of them; everything else refers to them by index.
type State struct {
	// Source is what is looked at: a context's name or a file's.
	Source string `json:"source"`
	// Taken is when a snapshot was taken; empty if that is unknown or it is none.
	Taken string `json:"taken,omitempty"`
	// Live: the state may change.
	Live bool `json:"live"`
	// Plans: the handler answers what a job would get.
	Plans bool `json:"plans"`
	// Trouble is why the state may be old; empty if it is not.
	Trouble string `json:"trouble,omitempty"`
	// Resource is the device that is counted; empty if no node has one.
	Resource string   `json:"resource"`
	Levels   []string `json:"levels"`  // those that nodes carry, wide to narrow, without cluster and host
	Domains  []Domain `json:"domains"` // each before those in it
	Hosts    []Host   `json:"hosts"`
	Boards   []Board  `json:"boards"`
	Gangs    []Gang   `json:"gangs"`  // that hold room or wait for it
	Drafts   []Gang   `json:"drafts"` // that are not created
}

// Domain is a domain that labels name. A host may be in none of a level.
type Domain struct {
	Level int    `json:"level"` // in State.Levels
	Name  string `json:"name"`
	First int    `json:"first"` // its hosts are [First, Last)
	Last  int    `json:"last"`
}

// What a device is when no gang has it.
const (
	freeDevice      = -1
	unhealthyDevice = -2
)

// Host is a node.
type Host struct {
	Name string `json:"name"`
	// GPUs tells for each device which gang has it, as an index of State.Gangs,
	// or one of -1, free, and -2, unhealthy.
	GPUs []int `json:"gpus"`
	// Exact: the positions are those that the node's agent reports. Else only the
	// counts are known.
	Exact bool `json:"exact,omitempty"`
	// Closed is why it takes no pods; empty if it does.
	Closed string `json:"closed,omitempty"`
	// Board is an index of State.Boards, -1 if the links are unknown.
	Board int `json:"board"`
}

// Board is how the devices of a host are linked; hosts of equal ones share it.
type Board struct {
	Model string `json:"model,omitempty"`
	// Sets are the devices that NVLink connects, directly or over others; a
	// device alone is none.
	Sets [][]int `json:"sets"`
	// Links is the matrix in nvidia-smi's words; the diagonal is empty.
	Links [][]string `json:"links"`
	NUMA  []int      `json:"numa"` // of each device, -1 for unknown
	// Uniform: every choice of as many devices is connected alike.
	Uniform bool `json:"uniform"`
}

// Gang is pods that belong together: a job's, a group's, those of another
// controller, or a pod alone.
type Gang struct {
	Reference
	State    string `json:"state"` // one of the states below
	Pods     int    `json:"pods"`  // that have not ended
	Bound    int    `json:"bound"`
	Running  int    `json:"running"`
	GPUs     int64  `json:"gpus"`              // that its pods ask for
	Minimum  int64  `json:"minimum,omitempty"` // of pods that start together
	Priority int32  `json:"priority,omitempty"`
	Since    string `json:"since,omitempty"` // its creation, RFC 3339
	// Reason and Message are the scheduler's last verdict, or what keeps the gang
	// from being judged.
	Reason  string            `json:"reason,omitempty"`
	Message string            `json:"message,omitempty"`
	Wishes  map[string]string `json:"wishes,omitempty"` // its placement annotations
	On      [][2]int          `json:"on,omitempty"`     // hosts and how many of its pods each has
}

// States of a gang.
const (
	stateWaiting   = "waiting"
	stateSuspended = "suspended"
	stateStarting  = "starting" // has its nodes, but not all pods run
	stateRunning   = "running"
	stateDraft     = "draft" // in a file, not in the cluster
)

// Reference names a gang, and in a request what is to be planned.
type Reference struct {
	Kind      string `json:"kind"` // TFJob, PodGroup, Pod, or that of another controller
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Plan is what would happen.
type Plan struct {
	Placed  bool         `json:"placed"`
	Failed  bool         `json:"failed,omitempty"` // the job would fail, and not wait
	Message string       `json:"message"`
	Pods    []PlannedPod `json:"pods,omitempty"`
	Evicted []Evicted    `json:"evicted,omitempty"`
	// Help is what would let it start.
	Help []string `json:"help,omitempty"`
}

// PlannedPod is one pod and where it would be.
type PlannedPod struct {
	Name    string `json:"name"`
	Role    string `json:"role,omitempty"`
	Node    string `json:"node,omitempty"`
	Running bool   `json:"running,omitempty"`
	GPUs    int64  `json:"gpus"`
}

// Evicted is a pod that would go.
type Evicted struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}
