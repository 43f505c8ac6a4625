// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package clusterspec answers: which environment variables tell one task of a distributed job who its peers are?
//
// A framework is one function from a Job and a Task to variables, and one row in injectors; docs/extending.md shows
// it. The functions are pure: the same job and task always give the same bytes, so a pod that is created again after a
// crash or a restart finds the peers that its predecessor had.
//
// The package knows names, counts and ports. It must not know Kubernetes types, clusters, clocks or the process
// environment; whoever calls it has read those already. Only the standard library is imported.
package clusterspec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Job is what every task of a job agrees on.
type Job struct {
	Name      string
	Namespace string
	// Domain is the DNS domain of the cluster; empty leaves names relative to the resolver's search path.
	Domain string
	// Subdomain is the service through which the tasks are found; empty where each has its own.
	Subdomain string
	// Roles in any order; a role's name appears once.
	Roles []Role
	// Dynamic jobs change their number of workers while they run, so a task is told only the peers that it needs.
	Dynamic bool
}

// Role is a set of replicas that run the same program.
type Role struct {
	Name     string // lower case, as it appears in host names
	Replicas int
	Port     int
}

// Task is one replica.
type Task struct {
	Role  string
	Index int
}

// Var is one environment variable.
type Var struct {
	Name  string
	Value string
	// First: the variable stands before those of the user, whose values may then refer to it as $(Name) and who may
	// declare it anew. Other variables stand after them and win.
	First bool
}

// Size in bytes, as a program is given the variable: name=value and a zero.
func (v Var) Size() int { return len(v.Name) + len("=") + len(v.Value) + 1 }

// MaxSize of a variable: Linux starts no program with a longer one where memory pages are of 4 KiB (execve(2), MAX_ARG_STRLEN).
const MaxSize = 32 * 4096

// Env returns the variables that framework wants in the environment of the task, in order. None at all is a good answer: a
// job of a single task has no peers.
func Env(framework string, job Job, task Task) ([]Var, error) {
	role, ok := job.role(task.Role)
	if !ok {
		return nil, fmt.Errorf("job %s/%s has no role %q", job.Namespace, job.Name, task.Role)
	}
	if task.Index < 0 || task.Index >= role.Replicas {
		return nil, fmt.Errorf("job %s/%s has no task %s %d: the role has %d replicas",
			job.Namespace, job.Name, task.Role, task.Index, role.Replicas)
	}
	if !slices.Contains(Frameworks(), framework) {
		return nil, fmt.Errorf("unknown framework %q, known are %s", framework, strings.Join(Frameworks(), ", "))
	}
	var vars []Var
	for _, row := range injectors {
		if row.framework != framework {
			continue
		}
		more, err := row.inject(job, task)
		if err != nil {
			return nil, fmt.Errorf("%s variables of job %s/%s: %w", framework, job.Namespace, job.Name, err)
		}
		vars = append(vars, more...)
	}
	return vars, nil
}

// Frameworks lists the frameworks that Env knows.
func Frameworks() []string {
	var names []string
	for _, row := range injectors {
		if !slices.Contains(names, row.framework) {
			names = append(names, row.framework)
		}
	}
	return names
}

// TaskName is the name that a task's pod and service share.
func TaskName(job string, task Task) string {
	return namePrefix(job, task.Role) + strconv.Itoa(task.Index)
}

func namePrefix(job, role string) string { return job + "-" + role + "-" }

type injector func(Job, Task) ([]Var, error)

// injectors is all there is to register. A framework has at least one row; the variables of several stand in their order.
var injectors = []struct {
	framework string
	inject    injector
}{
	{"tensorflow", flagHosts},
	{"tensorflow", tensorflow},
}

func (j Job) role(name string) (Role, bool) {
	for _, r := range j.Roles {
		if r.Name == name {
			return r, true
		}
	}
	return Role{}, false
}

func (j Job) replicas() int {
	total := 0
	for _, r := range j.Roles {
		total += r.Replicas
	}
	return total
}

// addresses lists host:port of a role's tasks in index order; never nil. Every task of a large job is told all of them.
func (j Job) addresses(r Role) []string {
	before, after := j.aroundIndex(r)
	all := make([]string, r.Replicas)
	for i := range all {
		all[i] = before + strconv.Itoa(i) + after
	}
	return all
}

func (j Job) address(r Role, index int) string {
	before, after := j.aroundIndex(r)
	return before + strconv.Itoa(index) + after
}

// aroundIndex is what the addresses of a role's tasks have in common.
func (j Job) aroundIndex(r Role) (before, after string) {
	if j.Subdomain != "" {
		after = "." + j.Subdomain
	}
	after += "." + j.Namespace + ".svc"
	if j.Domain != "" {
		after += "." + j.Domain
	}
	return namePrefix(j.Name, r.Name), after + ":" + strconv.Itoa(r.Port)
}
