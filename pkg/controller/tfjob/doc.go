// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package tfjob answers what has to be done so that a TFJob is what its user asked for: the TFJob controller.
//
// One reconcile of one job is four steps, each in the file of its name:
//
//	gather  reads the caches into a view: the job in canonical form, and what exists for it
//	decide  is pure: from a view to a plan, that is, the status to report and what to create and delete
//	report  writes the status, if it changed, and then sends the events of that change
//	act     does the rest of the plan
//
// The status is written before anything is deleted or created. A controller killed in between finds a status that already
// says why, and decides the same again; nothing that is about to be deleted is needed to remember what happened.
//
// What keeps a job right when caches lag, calls time out or two controllers overlap:
//
//	N1  Every object of a job has a name that follows from the job, the role and the index. Nothing can exist twice.
//	N2  An object belongs to a job if its controller reference has the job's UID and it bears the job's labels. A name alone proves
//	    nothing; claims.go says what becomes of objects at the edge.
//	N3  Pods are created when every service of the job exists, services when the PodGroup does.
//	N4  Before a plan is acted upon, the API server has confirmed that the job is still the one that was decided about.
//	N5  Deletions carry the UID of what they are meant for.
//	N6  What was asked of the API server and is not in the caches yet is in the ledger and counts as done.
//	N7  What has to be known of replicas beyond their pods is in the status: which indexes have succeeded, and how often each was
//	    restarted. A failure counts in the same write that announces the restart, and once, because pods bear their attempt's number.
//
// The package must not know how pods are placed; it says what belongs together (PodGroup, labels) and leaves the rest to the
// scheduler. It reads no flags, environment or wall clock: those come in as values.
package tfjob
