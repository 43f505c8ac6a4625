// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	"github.com/tutti-project/tutti/pkg/clusterspec"
)

// replicaTypes are all there are, in the order in which a job's roles are looked at: where two of them would end a job in the same
// reconcile, the first one decides how.
var replicaTypes = []kubeflowv1.ReplicaType{
	kubeflowv1.TFJobReplicaTypeChief,
	kubeflowv1.TFJobReplicaTypeEval,
	kubeflowv1.TFJobReplicaTypeMaster,
	kubeflowv1.TFJobReplicaTypePS,
	kubeflowv1.TFJobReplicaTypeWorker,
}

// canonicalType finds the replica type that a user wrote in any case.
func canonicalType(written kubeflowv1.ReplicaType) (kubeflowv1.ReplicaType, bool) {
	for _, t := range replicaTypes {
		if strings.EqualFold(string(t), string(written)) {
			return t, true
		}
	}
	return "", false
}

// role is one replica type of a job in canonical form.
type role struct {
	kind kubeflowv1.ReplicaType
	name string // lower case: in names and labels
	// replicas is how many there are: never more than maxReplicas, whatever is written. All that loops over replicas relies on it.
	replicas int
	// decides: this role's success is the job's.
	decides bool
	spec    *kubeflowv1.ReplicaSpec
}

// slot is the place of one replica; its pod and its service bear the slot's name.
type slot struct {
	role  *role
	index int
}

// newcomer is a slot whose pod is to be made.
type newcomer struct {
	slot
	attempt int32
}

func (s slot) task() clusterspec.Task {
	return clusterspec.Task{Role: s.role.name, Index: s.index}
}

func (s slot) name(job *kubeflowv1.TFJob) string {
	return clusterspec.TaskName(job.Name, s.task())
}

// rolesFrom lists the roles of a job in canonical form.
func rolesFrom(job *kubeflowv1.TFJob) []role {
	decider := decidingType(job)
	var roles []role
	for _, t := range replicaTypes {
		if spec := job.Spec.TFReplicaSpecs[t]; spec != nil {
			roles = append(roles, role{
				kind:     t,
				name:     strings.ToLower(string(t)),
				replicas: int(min(*spec.Replicas, maxReplicas)),
				decides:  t == decider,
				spec:     spec,
			})
		}
	}
	return roles
}

// decidingType is the chief or master, or without one the workers. A role of no replicas cannot decide anything and counts
// as absent. A legacy job may say that the workers decide although there is a master.
func decidingType(job *kubeflowv1.TFJob) kubeflowv1.ReplicaType {
	if chief := legacyChief(job); chief == kubeflowv1.TFJobReplicaTypeWorker {
		return chief
	}
	for _, t := range []kubeflowv1.ReplicaType{kubeflowv1.TFJobReplicaTypeChief, kubeflowv1.TFJobReplicaTypeMaster} {
		if spec := job.Spec.TFReplicaSpecs[t]; spec != nil && *spec.Replicas > 0 {
			return t
		}
	}
	return kubeflowv1.TFJobReplicaTypeWorker
}

func totalReplicas(roles []role) int {
	total := 0
	for _, r := range roles {
		total += r.replicas
	}
	return total
}

// trainer is the first container named tensorflow, or nil.
func trainer(pod *corev1.PodSpec) *corev1.Container {
	for i := range pod.Containers {
		if pod.Containers[i].Name == kubeflowv1.TFJobDefaultContainerName {
			return &pod.Containers[i]
		}
	}
	return nil
}

// clusterJob is what clusterspec wants to know of a job.
func clusterJob(v *view, domain string) clusterspec.Job {
	spec := clusterspec.Job{
		Name:      v.job.Name,
		Namespace: v.job.Namespace,
		Domain:    domain,
		Dynamic:   v.job.Spec.EnableDynamicWorker,
	}
	if v.perJob {
		spec.Subdomain = v.job.Name
	}
	for _, r := range v.roles {
		spec.Roles = append(spec.Roles, clusterspec.Role{Name: r.name, Replicas: r.replicas, Port: trainingPort(&r.spec.Template.Spec)})
	}
	return spec
}

// longestVariable that the controller puts into the job's pods. A job that cannot be run has none.
func longestVariable(v *view, domain string) (longest clusterspec.Var) {
	if len(v.problems) > 0 {
		return longest
	}
	// All tasks are told the same peers, or, of a dynamic job, few.
	vars, err := clusterspec.Env(kubeflowv1.TFJobFrameworkName, clusterJob(v, domain), v.slots()[0].task())
	if err != nil {
		return longest
	}
	for _, variable := range vars {
		if variable.Size() > longest.Size() {
			longest = variable
		}
	}
	return longest
}

func trainingPort(pod *corev1.PodSpec) int {
	if c := trainer(pod); c != nil {
		for _, p := range c.Ports {
			if p.Name == kubeflowv1.TFJobDefaultPortName {
				return int(p.ContainerPort)
			}
		}
	}
	return kubeflowv1.TFJobDefaultPort
}
