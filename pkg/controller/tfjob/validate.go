// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// maxReplicas bounds what one job may ask for. TF_CONFIG names every replica, and one variable of the environment ends at 128 KiB,
// so a real job stays well below.
const maxReplicas = 10_000

// validate says why a job in canonical form cannot be run. The schema of the CRD refuses most of this at the door; what it
// cannot say, and what comes in where another schema is installed, ends here.
func validate(job *kubeflowv1.TFJob) (problems []string) {
	specs := job.Spec.TFReplicaSpecs
	if len(specs) == 0 {
		problems = append(problems, "there are no replicas")
	}
	if specs[kubeflowv1.TFJobReplicaTypeChief] != nil && specs[kubeflowv1.TFJobReplicaTypeMaster] != nil {
		problems = append(problems, "there are both Chief and Master: one of them decides the job's success")
	}
	problems = append(problems, validateAnnotations(job)...)
	roles := rolesFrom(job)
	for i := range roles {
		problems = append(problems, validateRole(job, &roles[i])...)
	}
	if total := writtenReplicas(roles); total > maxReplicas {
		problems = append(problems, fmt.Sprintf("there are %d replicas; at most %d are supported", total, maxReplicas))
	} else if total == 0 && len(specs) > 0 {
		problems = append(problems, "every replica type has 0 replicas, so nothing would ever run; to pause a job, set runPolicy.suspend")
	}
	return problems
}

// writtenReplicas is how many replicas a job asks for.
func writtenReplicas(roles []role) (total int64) {
	for i := range roles {
		total += int64(*roles[i].spec.Replicas)
	}
	return total
}

// validateGang says why a job cannot be one gang. A gang is placed, waits and gives way as one, so it has one priority.
func validateGang(v *view) (problems []string) {
	first := -1
	for i := range v.roles {
		r := &v.roles[i]
		switch {
		case r.replicas == 0:
		case first < 0:
			first = i
		case priorityClass(v.job, r) != priorityClass(v.job, &v.roles[first]):
			problems = append(problems, fmt.Sprintf("%s has priority class %q and %s has %q: the pods of a gang have one priority class",
				v.roles[first].kind, priorityClass(v.job, &v.roles[first]), r.kind, priorityClass(v.job, r)))
		}
	}
	return problems
}

// priorityClass is the template's, or else the job's.
func priorityClass(job *kubeflowv1.TFJob, r *role) string {
	if class := r.spec.Template.Spec.PriorityClassName; class != "" {
		return class
	}
	if policy := job.Spec.RunPolicy.SchedulingPolicy; policy != nil {
		return policy.PriorityClass
	}
	return ""
}

func validateRole(job *kubeflowv1.TFJob, r *role) (problems []string) {
	problem := func(format string, args ...any) {
		problems = append(problems, fmt.Sprintf("%s: %s", r.kind, fmt.Sprintf(format, args...)))
	}
	if r.replicas < 0 {
		problem("the number of replicas, %d, is negative", r.replicas)
	}
	switch r.spec.RestartPolicy {
	case kubeflowv1.RestartPolicyAlways, kubeflowv1.RestartPolicyOnFailure, kubeflowv1.RestartPolicyNever, kubeflowv1.RestartPolicyExitCode:
	default:
		problem("restart policy %q is not one of Always, OnFailure, Never, ExitCode", r.spec.RestartPolicy)
	}
	pod := &r.spec.Template.Spec
	if trainer(pod) == nil {
		problem("no container is named %s", kubeflowv1.TFJobDefaultContainerName)
	}
	for _, c := range pod.Containers {
		if c.Image == "" {
			problem("container %q has no image", c.Name)
		}
	}
	if r.replicas > 0 {
		// The last index is the longest name.
		name := slot{role: r, index: r.replicas - 1}.name(job)
		if why := validation.IsDNS1035Label(name); len(why) > 0 {
			problem("%q cannot be the name of a service: %s", name, strings.Join(why, "; "))
		}
	}
	return problems
}
