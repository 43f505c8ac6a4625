// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"fmt"
	"strconv"
	"strings"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	"github.com/tutti-project/tutti/pkg/apis/tutti"
)

// needed is the order in which a job needs its roles: workers train with all of their parameter servers or not at all, while fewer
// workers train more slowly, and an evaluator only watches.
var needed = []kubeflowv1.ReplicaType{
	kubeflowv1.TFJobReplicaTypeChief,
	kubeflowv1.TFJobReplicaTypeMaster,
	kubeflowv1.TFJobReplicaTypePS,
	kubeflowv1.TFJobReplicaTypeWorker,
	kubeflowv1.TFJobReplicaTypeEval,
}

// roleMinimums is the annotation that splits what a gang needs, members that are yet to end, among its roles: the user's, or, where the gang
// may lack some, one by what the job needs first; empty where there is nothing to split. No role has a higher minimum than it has
// replicas that are yet to end: a gang that has lost some of its pods after others had succeeded would wait for ever.
func roleMinimums(v *view, counts []roleCount, members int32) string {
	if written, ok := v.job.Annotations[tutti.RoleMinimumsAnnotation]; ok {
		return cappedMinimums(written, counts)
	}
	left := int(members)
	if left >= unended(counts...) {
		return ""
	}
	var parts []string
	for _, kind := range needed {
		for i := range counts {
			if n := min(left, unended(counts[i])); counts[i].role.kind == kind && n > 0 {
				parts = append(parts, fmt.Sprintf("%s=%d", counts[i].role.name, n))
				left -= n
			}
		}
	}
	return strings.Join(parts, ",")
}

// cappedMinimums leaves alone what it cannot read: the scheduler tells the user about that.
func cappedMinimums(written string, counts []roleCount) string {
	parts := strings.Split(written, ",")
	for i, part := range parts {
		name, number, _ := strings.Cut(part, "=")
		n, err := strconv.Atoi(strings.TrimSpace(number))
		for j := range counts {
			if most := unended(counts[j]); err == nil && counts[j].role.name == strings.TrimSpace(name) && n > most && hasEnds(counts[j]) {
				parts[i] = fmt.Sprintf("%s=%d", counts[j].role.name, most)
			}
		}
	}
	return strings.Join(parts, ",")
}

// unended is how many replicas have a pod to run, now or later.
func unended(counts ...roleCount) int {
	n := 0
	for i := range counts {
		n += counts[i].role.replicas - int(counts[i].succeeded) - len(counts[i].lost)
	}
	return n
}

// hasEnds tells whether some replica will have no pod again. Where none has, a minimum above the number of replicas holds a job back, and
// stays.
func hasEnds(c roleCount) bool { return int(c.succeeded)+len(c.lost) > 0 }
