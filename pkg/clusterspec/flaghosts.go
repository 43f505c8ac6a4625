// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package clusterspec

import (
	"slices"
	"strconv"
	"strings"
)

// flagHosts serves programs in the style of TensorFlow 1, which take their peers as flags:
//
//	args: [--ps_hosts=$(TUTTI_PS_HOSTS), --worker_hosts=$(TUTTI_WORKER_HOSTS),
//	       --job_name=$(TUTTI_JOB_NAME), --task_index=$(TUTTI_TASK_INDEX)]
//
// All four are always there, if need be empty: a reference to a variable that does not exist is left in the arguments as
// it is written. The lists of a dynamic job are those of the moment in which the pod is created.
func flagHosts(job Job, task Task) ([]Var, error) {
	hosts := func(role string) string {
		r, _ := job.role(role) // a job without the role has no hosts in it
		return strings.Join(job.addresses(r), ",")
	}
	vars := []Var{
		{Name: "TUTTI_PS_HOSTS", Value: hosts("ps"), First: true},
		{Name: "TUTTI_WORKER_HOSTS", Value: hosts("worker"), First: true},
		{Name: "TUTTI_JOB_NAME", Value: task.Role, First: true},
		{Name: "TUTTI_TASK_INDEX", Value: strconv.Itoa(task.Index), First: true},
	}
	// Where a list is too long, programs that do without it are to run.
	return slices.DeleteFunc(vars, func(v Var) bool { return v.Size() > MaxSize }), nil
}
