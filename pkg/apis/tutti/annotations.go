// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package tutti answers which words Tutti's own parts say to each other, and to users, through
// labels, annotations and conditions of objects whose types belong to others. It knows no object
// and imports nothing.
package tutti

// SchedulerName is the scheduler profile that places gangs. The TFJob controller writes it to pods
// whose template names no scheduler; the scheduler's configuration reads it.
const SchedulerName = "tutti-scheduler"

// Namespace is where Tutti's manifests install its programs, and where they keep their leases.
const Namespace = "tutti-system"

// What a user asks of the placement. Users write these on a TFJob, whose controller copies them to
// the job's PodGroup, or on any PodGroup; the scheduler reads them from the PodGroup only.
const (
	// RequiredTopologyAnnotation names a level, or the node label of one: all pods of the gang
	// are placed inside one domain of that level, or none is scheduled.
	RequiredTopologyAnnotation = "tutti.dev/required-topology"

	// PreferredTopologyAnnotation names a level, or the node label of one: the gang is placed as
	// narrowly as possible, that level is narrow enough, and wider ones do when it has no room.
	PreferredTopologyAnnotation = "tutti.dev/preferred-topology"

	// GPULinkAnnotation is the weakest link allowed between the GPUs of one pod: nvlink, pcie,
	// numa or any.
	GPULinkAnnotation = "tutti.dev/gpu-link"

	// UniformGPUsAnnotation is true or false: whether all pods of a role get the same GPU model
	// and node shape. The default is true for roles that ask for GPUs.
	UniformGPUsAnnotation = "tutti.dev/uniform-gpus"

	// SliceSizeAnnotation is n: every n consecutive ranks of a role are placed inside one domain
	// of the level that SliceTopologyAnnotation names.
	SliceSizeAnnotation = "tutti.dev/slice-size"

	// SliceTopologyAnnotation names the level of SliceSizeAnnotation.
	SliceTopologyAnnotation = "tutti.dev/slice-topology"

	// RoleMinimumsAnnotation is a list role=n, separated by commas ("ps=1,worker=4", roles as in
	// the replica-type label): the gang never runs with fewer than n pods of that role. It splits
	// the PodGroup's minMember; without it, what a gang may lack is taken from its largest role.
	RoleMinimumsAnnotation = "tutti.dev/role-minimums"

	// MoveAfterAnnotation is how many seconds a gang that lost pods may run below its minimum, without room for others beside
	// those that it has, before all of it is placed anew where it fits whole. The default is 300; 0 is never.
	MoveAfterAnnotation = "tutti.dev/move-after-seconds"
)

// What Kueue's users ask of the placement, on pods. The scheduler takes it as the annotation of the
// same meaning above, for the whole gang; the levels are named by their node labels.
const (
	KueuePodSetPrefix                    = "kueue.x-k8s.io/podset-"
	KueueRequiredTopologyAnnotation      = KueuePodSetPrefix + "required-topology"
	KueuePreferredTopologyAnnotation     = KueuePodSetPrefix + "preferred-topology"
	KueueSliceRequiredTopologyAnnotation = KueuePodSetPrefix + "slice-required-topology"
	KueueSliceSizeAnnotation             = KueuePodSetPrefix + "slice-size"

	// KueueUnconstrainedTopologyAnnotation asks for nothing.
	KueueUnconstrainedTopologyAnnotation = KueuePodSetPrefix + "unconstrained-topology"
)

// ServicesAnnotation selects how the pods of a TFJob are found by name: ServicesPerReplica (the
// default) or ServicesPerJob. Users write it on the TFJob; the TFJob controller reads it.
const (
	ServicesAnnotation = "tutti.dev/services"
	ServicesPerReplica = "per-replica"
	ServicesPerJob     = "per-job"
)

// CompletionAnnotation says when a replica of a TFJob has ended: CompletionPod (the default), when all containers of its pod have, or
// CompletionMainContainer, when the container that trains has, whatever sidecars still do. Users write it on the TFJob; the TFJob
// controller reads it.
const (
	CompletionAnnotation    = "tutti.dev/completion"
	CompletionPod           = "pod"
	CompletionMainContainer = "main-container"
)

// ScheduleTimeoutAnnotation is how many seconds a gang may wait, complete, before its verdict says so and it
// goes behind others of its priority. Users, and the TFJob controller, write it on a native PodGroup; a CRD's
// has the field spec.scheduleTimeoutSeconds, which the scheduler reads in its place.
const ScheduleTimeoutAnnotation = "tutti.dev/schedule-timeout-seconds"

// QueueAnnotation is the queue of a gang. The TFJob controller copies it from the job's scheduling policy
// to the PodGroup; Tutti's scheduler has no queues and does not read it.
const QueueAnnotation = "tutti.dev/queue"

// GangAnnotations are all that a PodGroup may bear. A key that begins like them and is none is an
// error of its writer's, and the scheduler says so instead of placing the gang without it.
var GangAnnotations = []string{
	RequiredTopologyAnnotation, PreferredTopologyAnnotation, GPULinkAnnotation, UniformGPUsAnnotation,
	SliceSizeAnnotation, SliceTopologyAnnotation, RoleMinimumsAnnotation, ServicesAnnotation, CompletionAnnotation, QueueAnnotation,
	ScheduleTimeoutAnnotation, MoveAfterAnnotation,
}

// NVLinkDomainLabel is the NVLink fabric beyond one node that the node's GPUs are part of: nodes with
// the same value reach each other over NVLink. The node's agent writes it to the node, if it finds
// such a fabric; the scheduler reads it as one of the labels of its narrowest level. It is not the
// label that people write themselves, which goes before it.
const NVLinkDomainLabel = "tutti.dev/nvlink-domain"

// HeldPodsAnnotation is how many members of a group have scheduling gates. The scheduler writes and
// reads it in its own memory; no object of the API bears it.
const HeldPodsAnnotation = "projection.tutti.dev/held-pods"

// AttemptAnnotation is how many pods of the same replica have failed and been replaced before this one;
// absent is none. The TFJob controller writes it to pods and reads it, so that no failure counts twice.
const AttemptAnnotation = "tutti.dev/attempt"

// GangPlacedCondition is the type of the condition that tells what the scheduler decided for a
// gang. The scheduler writes it to the PodGroup's status; people and kubectl read it. Where the
// installed PodGroup CRD keeps no conditions the verdict is in events only.
const GangPlacedCondition = "GangPlaced"

// Reasons of GangPlacedCondition.
const (
	// GangPlacedReason goes with True: every pod of the quorum has its node.
	GangPlacedReason = "GangPlaced"
	// UnschedulableReason goes with False: no pod is bound, and the message says which role lacks
	// room, how many of how many fit, and in which domain most of them do.
	UnschedulableReason = "Unschedulable"
	// PreemptingReason goes with False: room is being made for the gang, and the message says
	// where, and who is evicted for it, or that only pods are waited for that are deleted anyway.
	PreemptingReason = "Preempting"
	// IncompleteReason goes with False: the gang cannot be tried, since it lacks pods or its pods
	// contradict each other; the message says which.
	IncompleteReason = "Incomplete"
)

// PendingReasons are those that go with False.
var PendingReasons = []string{UnschedulableReason, PreemptingReason, IncompleteReason}
