// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	"github.com/tutti-project/tutti/pkg/snapshot"
)

// ofJob tells what keeps a job from having pods, or nothing if it has them.
func ofJob(f Facts, key types.NamespacedName) (State, []string) {
	job := find(f.Snapshot, "TFJob", key)
	if by, ok, _ := unstructured.NestedString(job.Object, "spec", "runPolicy", "managedBy"); ok && by != "" && by != kubeflowv1.TFJobControllerName {
		return Waits, []string{fmt.Sprintf("spec.runPolicy.managedBy is %s, so tutti-controller leaves it to that one", by)}
	}
	if message, ok := holds(job, string(kubeflowv1.JobSucceeded)); ok {
		return Finished, []string{message}
	}
	if message, ok := holds(job, string(kubeflowv1.JobFailed)); ok {
		return Failed, []string{message}
	}
	if suspend, _, _ := unstructured.NestedBool(job.Object, "spec", "runPolicy", "suspend"); suspend {
		return Waits, []string{fmt.Sprintf("it is suspended, by a queue in front of it (Kueue) or by its user; what resumes it is: kubectl patch tfjob %s -n %s --type merge -p '{\"spec\":{\"runPolicy\":{\"suspend\":false}}}'", key.Name, key.Namespace)}
	}
	if len(membersOf(f.Snapshot, key)) > 0 {
		return "", nil
	}
	if len(f.Warnings) > 0 {
		return Waits, []string{"it has no pods, for: " + f.Warnings[0]}
	}
	if _, ok := holds(job, string(kubeflowv1.JobCreated)); !ok {
		return Waits, []string{"no controller has taken it up: is tutti-controller running (kubectl -n tutti-system get deployment tutti-controller), and does it watch this namespace?"}
	}
	return Waits, []string{"its pods do not exist yet; if that lasts, the log of tutti-controller says why"}
}

// holds is the message of a condition that is true.
func holds(o *unstructured.Unstructured, kind string) (string, bool) {
	c, ok := snapshot.ConditionOf(o, kind)
	return c.Message, ok && c.Status == "True"
}
